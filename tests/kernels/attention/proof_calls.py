# SPDX-License-Identifier: MIT
"""Prints the calls of attention's proof (kernels/attention/attention_proof.cc) as tools/aot_inductor/make_for_config.py reads
them, for level aot_inductor on GPUs."""

DTYPES = ("float32", "bfloat16", "float16")
# Patterns and terms that stand for all of their kind -> query heads of a key and value head, and widths of heads.
CALLED = {
    "causal": ("3x16", "2x32", "2x64", "2x96", "1x128", "2x128", "2x192", "1x256"),
    "causal & documents": ("2x16", "1x64", "3x64", "2x128"),
    "causal | prefix(20)": ("2x16", "2x64", "2x96", "4x96", "2x128", "3x128", "2x192", "1x256"),
    "causal & documents | global(2)": ("3x64",),
    "causal, alibi": ("3x16", "2x64"),
    "causal, softcap 2": ("1x16", "3x16", "2x64"),
    "causal, sinks": ("3x16", "2x64"),
    "causal, softcap 2, sinks": ("2x64",),
    "causal, alibi, sinks": ("2x64",),
    "causal & documents, alibi": ("2x64",),
    "causal & documents, softcap 2": ("2x64",),
    "causal | prefix(20), sinks": ("2x64", "2x128"),
    "causal | prefix(20), softcap 2": ("2x64",),
    "causal | prefix(20), softcap 2, sinks": ("2x64",),
    "causal, alibi, softcap 2": ("2x64",),
    "causal, alibi, softcap 2, sinks": ("3x16", "2x64", "3x64", "2x96", "2x128"),
    "causal & documents, alibi, softcap 2, sinks": ("3x64", "3x128"),
    "causal | prefix(20), alibi, softcap 2, sinks": ("2x64", "2x128", "1x256"),
}


def calls():
    for dtype in DTYPES:
        for pattern_and_terms, heads in CALLED.items():
            for each in heads:
                group, width = each.split("x")
                yield f"attention\tattention\t{dtype}\t2x128 positions, {group}/1 heads of {width}, {pattern_and_terms}"


if __name__ == "__main__":
    print("\n".join(calls()))
