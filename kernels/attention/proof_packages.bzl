"""The functions of level aot_inductor that the cases of attention_proof.cc call."""

# Mask and terms -> query heads of a key and value head, and widths of heads.
_CALLED = {
    "band": ["3x16", "2x32", "2x64", "2x96", "1x128", "2x128", "2x192", "1x256"],
    "band_documents": ["2x16", "1x64", "3x64", "2x128"],
    "bits": ["2x16", "2x64", "2x128", "1x256"],
    "bits_documents": ["3x64"],
    "band_alibi": ["3x16", "2x64"],
    "band_softcap": ["1x16", "3x16", "2x64"],
    "band_sinks": ["3x16", "2x64"],
    "bits_sinks": ["2x64"],
    "band_alibi_softcap": ["2x64"],
    "band_alibi_softcap_sinks": ["3x16", "2x64", "3x64", "2x96", "2x128"],
    "band_documents_alibi_softcap_sinks": ["3x64", "3x128"],
    "bits_alibi_softcap_sinks": ["2x64", "2x128", "1x256"],
}

def proof_functions(dtype):
    """Returns the requests for make_packages.py."""
    requests = []
    for name, heads in _CALLED.items():
        for each in heads:
            group, width = each.split("x")
            for direction in ["forward", "backward"]:
                requests.append("attention %s_%s %s e=%d,g=%s,d=%s" % (direction, name, dtype, int(group) + 2, group, width))
    return requests
