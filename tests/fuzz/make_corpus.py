# SPDX-License-Identifier: MIT
"""make_corpus.py [FOLDER]: writes the seeds of all fuzz targets to FOLDER/<target>/, or to corpus/ beside this file. It needs
Python's own modules only. A seed has at most 1.1 kB, apart from archives, whose smallest file takes three blocks of 512 bytes, and from those
with a word that is too long for one line of a message."""
import io
import json
import os
import random
import struct
import sys
import tarfile
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))

CONFIG = """run: {folder: runs/test, ranks: 2}
steps: 100
batch: 16
micro_batch: 4
model: {type: transformer, family: llama, layers: 4, width: 64, heads: 4, feed_forward: 128, sequence: 32, vocabulary: 256}
data: {type: text, train: train.bin, validation: validation.bin}
optimizer: {type: adamw, learning_rate: 1e-3}
schedule: {type: cosine, warmup: 10}
precision: {compute: float32, reduce: float32}
sharding: {strategy: full}
kernels: {default: aten}
checkpoint: {every: 50}
evaluation: {every: 50, tokens: 64}
"""


def safetensors(tensors, metadata=None, data=b""):
    header = {"__metadata__": metadata} if metadata else {}
    for name, dtype, shape, begin, end in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + data


def idx(sizes, values):
    return bytes([0, 0, 8, len(sizes)]) + b"".join(struct.pack(">I", size) for size in sizes) + values


def npy(dtype, shape, values, order="False"):
    header = f"{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + values


def zipped(entries, method=0):
    """A ZIP archive without times, so that its bytes are the same in every run."""
    local, central = bytearray(), bytearray()  # bytes would be copied for each entry
    for name, content in entries:
        name = name.encode()
        packed = content
        if method == 8:
            packer = zlib.compressobj(6, zlib.DEFLATED, -15)
            packed = packer.compress(content) + packer.flush()
        fields = struct.pack("<HHHHHIII", 20, 0, method, 0, 0x21, zlib.crc32(content), len(packed), len(content))
        central += b"PK\1\2" + struct.pack("<H", 20) + fields + struct.pack("<HHHHHII", len(name), 0, 0, 0, 0, 0, len(local)) + name
        local += b"PK\3\4" + fields + struct.pack("<HH", len(name), 0) + name + packed
    end = struct.pack("<HHHHIIH", 0, 0, len(entries), len(entries), len(central), len(local), 0)
    return bytes(local + central) + b"PK\5\6" + end


def png(width, height, color, depth, rows, before=b"", interlaced=0):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlaced)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + before + chunk(b"IDAT", zlib.compress(rows, 0)) + chunk(b"IEND", b""))


def segment(marker, data):
    return b"\xff" + bytes([marker]) + struct.pack(">H", len(data) + 2) + data


def huffman(kind, symbols):
    """A table whose codes all have 4 bits, for at most 15 symbols."""
    return segment(0xC4, bytes([kind]) + bytes([0, 0, 0, len(symbols)] + [0] * 12) + bytes(symbols))


def jpeg(width, height, components, samples, scans, progressive=False, before=b""):
    """The scans are random bits: nearly all sequences of such codes are good ones."""
    draw = random.Random(1)
    frame = struct.pack(">BHHB", 8, height, width, components)
    frame += b"".join(bytes([i + 1, samples if i == 0 else 0x11, 0]) for i in range(components))
    # DC differences of up to 3 bits; AC runs of up to 1 zero before values of up to 2 bits, and the end of a block.
    tables = huffman(0x00, [0, 1, 2, 3]) + huffman(0x10, [0x00, 0x01, 0x02, 0x11, 0x12, 0xF0])
    result = b"\xff\xd8" + before + segment(0xDB, b"\0" + bytes([16] * 64)) + segment(0xC2 if progressive else 0xC0, frame) + tables
    for which, first, last, high_low in scans:
        result += segment(0xDA, bytes([len(which)]) + b"".join(bytes([i, 0]) for i in which) + bytes([first, last, high_low]))
        # The codes 0000 to 0101 are in the tables; a block is DC 0 and the end of the block: 0000 0000.
        result += bytes(0 if draw.random() < 0.8 else draw.choice([0x10, 0x01]) for _ in range(-(-width // 8) * -(-height // 8) * 3))
    return result + b"\xff\xd9"


def tar(files, kind=tarfile.USTAR_FORMAT, sparse=False):
    """Ends with one block of zeros of the two, which the readers accept, to keep seeds small."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=kind) as archive:
        for name, content in files:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            if sparse:
                info.type = tarfile.GNUTYPE_SPARSE
            archive.addfile(info, io.BytesIO(content))
    members = buffer.getvalue().rstrip(b"\0")
    return members + b"\0" * (-len(members) % 512) + b"\0" * 1024


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def event(step, content):
    message = b"\x09" + struct.pack("<d", 1.5) + b"\x10" + bytes([step]) + content
    head = struct.pack("<Q", len(message))
    return head + masked_crc(head) + message + masked_crc(message)


def document_ends(ends, tokens, magic=20261125):
    return struct.pack("<256i", magic, 1, len(ends), tokens, *[0] * 252) + struct.pack(f"<{len(ends)}i", *ends)


def tokens(magic, version, ids, kind):
    return struct.pack("<256i", magic, version, len(ids), *[0] * 253) + struct.pack(f"<{len(ids)}{kind}", *ids)


LONG = "long" * 1050  # no line of a message has more than 4 KiB

PACKAGED_FUNCTION = "function\tKEY\trms_norm\tforward\tfloat32\td=*\tx86-64-v3\t100\tx[n,d] x[d] host:float32[]\t2\n"


def package_text(functions):
    return "strata package 1\nlibrary a.so\nbytes 10\nsha1 " + "0" * 40 + "\n" + functions


def manifest():
    file = {"name": "rank-00000.safetensors", "bytes": 20, "sha256": "0" * 64}
    tensors = {"a/master": {"dtype": "F32", "shape": [2, 2], "pieces": [[0, 0, 4]]}, "b": {"dtype": "I64", "shape": [], "pieces": [[0, 0, 1]]}}
    body = {"format": "strata checkpoint 1", "run": "1", "step": 20, "state": "{}", "files": [file], "tensors": tensors}
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in body.items())


LAYER_TENSORS = [("context.dropout_key", "I64", [1], 0, 8), ("context.graph_neighbors", "I32", [2], 8, 16), ("input.residual", "F32", [2], 16, 24),
                 ("weight.a", "BF16", [2], 24, 28)]


def saved_layer(changes=None, tensors=None):
    """The two files of a saved layer. The target replaces HASH."""
    facts = {"step": 7, "micro_batch": 0, "rank": 1, "ranks": 2, "layer": 0, "name": "blocks.0", "direction": "forward", "op": "forward aten::mm",
             "dropout_key": 5, "first_row": 0, "sources": 3, "gradient_type": "F32", "tensors_sha256": "HASH", "tensors": {}, **(changes or {})}
    return json.dumps(facts).encode() + b"\n====\n" + (tensors or safetensors(LAYER_TENSORS, None, bytes(28)))


def seeds():
    """Returns the seeds of each target."""
    all_of = {}
    all_of["safetensors"] = [
        safetensors([("a", "F32", [2, 3], 0, 24), ("b", "BF16", [3], 24, 30)], {"format": "pt"}, bytes(30)),
        safetensors([("scalar", "I64", [], 0, 8), ("empty", "U8", [0, 5], 8, 8)], None, bytes(8)),
        safetensors([], {"step": "20"}), ("long_dtype", safetensors([("a", LONG, [1], 0, 4)], None, bytes(4)))]
    all_of["config"] = [
        CONFIG, CONFIG + "gradient_checkpointing: [0-1, 3, 2-3 selective]\n",
        CONFIG.replace("{default: aten}", "{default: aten, layers: [{only: 0-1, linear: cuda}]}"),
        CONFIG.replace("family: llama", "family: gpt2, dropout: 0.1"),
        CONFIG.replace("width: 64", "width: &w 64").replace("feed_forward: 128", "feed_forward: *w"),
        "steps: [1\n", "\ufeffsteps: 0x10\nmodel: {type: graph}\n"]
    all_of["overrides"] = [
        "steps=200", "optimizer.learning_rate=1e-4\nmodel.layers=2", "kernels.layers.0.only=2-3",
        "model={type: transformer, family: gpt2, layers: 1, width: 8, heads: 1, sequence: 8, vocabulary: 9}", "run.nosuch=1", "=", "data.train=[a"]
    plan = ("config: a.yaml\ndevice: cpu\ntorch: 2.9.0\nkernels: 0123456789abcdef\nmodel: 0123456789abcdef\nlevels:\n  linear: aten\nmeasured:\n"
            "  - {op: linear, shape: \"8 x 8\", level: aten, uses: 2, forward: 1.5, backward: 2.25, error: 0.1}\n"
            "  - {op: linear, shape: \"8 x 8\", level: cuda, uses: 2, not_timed: \"no GPU\"}\n")
    all_of["attention_pattern"] = [
        "causal & (window(256) | global(16))", "full", "causal|prefix(100)&documents", " ( blocks(0.25, 4294967295) | dilated(3,\t2147483647) ) ",
        "window(4) & prefix(4)", "((causal & blocks(1e-3, 7)) | (documents & (window(1) | (global(2) & full))))", "causal & windw(0)", "window(0)",
        "(full", "full" + "|full" * 16]
    kept = ("keep: [up]\nformats:\n  - {modules: [up, down], shape: \"8x8->8\", layers: 2, forward: 2, backward: 4.5, compute_forward: 1, "
            "compute_backward: 3}\nmeasured:")
    all_of["kernel_plan"] = [plan, plan.split("levels")[0], plan.replace("cpu", "\"a \\\"b\\\\\""), plan.replace("measured:", kept)]
    pixels = bytes(range(12))
    gpt2 = {"model_type": "gpt2", "vocab_size": 9, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 2, "layer_norm_epsilon": 1e-5}
    llama = {"model_type": "llama", "vocab_size": 9, "max_position_embeddings": 8, "hidden_size": 8, "intermediate_size": 16,
             "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-5, "rope_theta": 1e4}
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8}
    qwen3 = {**llama, "model_type": "qwen3", "head_dim": 6, "sliding_window": 4, "use_sliding_window": True, "num_hidden_layers": 3, "max_window_layers": 1,
             "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4, "beta_fast": 32}, "initializer_range": 0.02}
    gemma3 = {**llama, "model_type": "gemma3_text", "head_dim": 4, "query_pre_attn_scalar": 4, "sliding_window": 4, "num_hidden_layers": 3,
              "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "final_logit_softcapping": None,
              "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6}}}
    gemma2 = {**llama, "model_type": "gemma2", "head_dim": 4, "query_pre_attn_scalar": 4, "sliding_window": 4, "attn_logit_softcapping": 50.0,
              "final_logit_softcapping": 30.0}
    timm = {"architecture": "vit_tiny_patch16_224", "num_classes": 10, "global_pool": "avg",
            "pretrained_cfg": {"input_size": [3, 32, 32], "fixed_input_size": True},
            "model_args": {"img_size": [32, 32], "depth": 2, "mlp_ratio": 3.5, "init_values": 0.1, "class_token": False, "fc_norm": False}}
    custom = {"architecture": "vit_small_patch16_224", "pretrained_cfg": {"mean": [0.5], "std": [0.2, 0.3, 0.4], "crop_pct": 0.9},
              "model_args": {"img_size": 32, "patch_size": [4, 4], "in_chans": 3, "num_classes": 2, "embed_dim": 8, "depth": 1, "num_heads": 2,
                             "global_pool": "token", "drop_path_rate": 0.1, "qkv_bias": True, "qk_norm": False, "reg_tokens": 0}}
    all_of["hf_config"] = [json.dumps(model) for model in (gpt2, llama, {**llama, "rope_scaling": scaling}, timm, {"architecture": "vit_base_patch16_224"}, qwen3, gemma3, gemma2, custom)]
    all_of["idx"] = [
        b"\0" + idx([3, 2, 2], pixels), b"\1" + idx([5], pixels[:5]), b"\2" + idx([1, 3, 2, 2], pixels), b"\3" + idx([12], pixels),
        b"\0" + zlib.compress(b"no gzip")]
    all_of["number_file"] = [
        b"\0" b"0,1\n1,2\n", b"\1" b"0.5 -1e-3\n1 2\r\n", b"\2" b"3;4\n5\t6", b"\4" b"1\n2\n3\n", b"\7" b"1.25,2\n-3,4e5\n", b"\1" b"inf\n",
        ("entries", b"\x08" b"0 1 0.5\n2,3,-1\n0 0 1e3\n"), ("entries_of_one", b"\x0c" b"2\t3\n0 1\n1 2\n"), ("entry_twice", b"\x08" b"0 1\n2 2\n0 1\n")]
    sidecar = {"bytes": 80, "tokens": 20, "tokenizer": "bytes", "vocabulary": 256, "largest_token": 19, "sha256": "00ff", "files": ["a.txt"]}
    all_of["sidecar"] = [json.dumps(sidecar), json.dumps({"tokens": 20, "bytes": 1}), json.dumps({"tokens": 21, "bytes": 1}), "{}",
                         json.dumps({"tokens": 20, "bytes": 1, "documents": None, "lines": True}), ("long_key", f'{{"{LONG}": 1, "{LONG}": 2}}')]
    all_of["document_ends"] = [document_ends(ends, 20) for ends in ([3, 4, 12, 20], [20], range(1, 21), [3, 3, 20], [3, 19], [])]
    all_of["token_file"] = [tokens(20240520, 1, list(range(20)), "H"), tokens(20240801, 7, [0, 70000, 5], "I")]
    text = [("a", b"some text"), ("b", b""), ("c.npy", bytes(20))]
    all_of["zip"] = [zipped(text), zipped(text, 8), zipped([]), zipped(text[:1]) + b"foreign"]
    arrays = {b"\0": npy("<i8", "(3,)", bytes(24)), b"\1": npy("<f4", "(2,)", bytes(8)), b"\2": npy("<u2", "(2, 3)", bytes(12)),
              b"\3": npy("<f8", "(1, 1)", bytes(8)), b"\4": npy("|u1", "(5,)", b"\0\1\2\3\4", "True"), b"\5": npy("|O", "(1,)", b"pickle")}
    all_of["npz"] = [choice + zipped([("a.npy", array)], method) for choice, array in arrays.items() for method in (0, 8)]
    all_of["npz"] += [("mask", b"\4" + zipped([("a.npy", npy("|b1", "(6,)", b"\0\1\0\1\1\0"))])), ("long_type", b"\0" + zipped([("a.npy", npy("f" * 65400, "(1,)", b""))], 8)),
                      ("long_shape", b"\0" + zipped([("a.npy", npy("<i8", "(" + "1," * 32000 + ")", b""))], 8))]
    gray, rgb = b"\0" + bytes(range(8)), b"\0" + bytes(range(24))
    palette = struct.pack(">I", 6) + b"PLTE" + b"\0\0\0\xff\0\0" + struct.pack(">I", zlib.crc32(b"PLTE\0\0\0\xff\0\0"))
    box, all_pixels = b"\x20\x40\x80\xc0", b"\0\0\xff\xff"
    all_of["png"] = [
        all_pixels + png(8, 8, 2, 8, rgb * 8), box + png(8, 8, 0, 8, gray * 8), box + png(8, 4, 3, 1, b"\0\x55" * 4, palette),
        box + png(4, 4, 6, 8, (b"\1" + bytes(16)) * 4), box + png(4, 4, 4, 8, (b"\4" + bytes(8)) * 4),
        box + png(2, 2, 2, 16, (b"\0" + bytes(12)) * 2), all_pixels + png(3, 3, 0, 8, (b"\0" + bytes(1)) * 2 + b"\0" + bytes(2) + b"\0\1\2\3" * 3, b"", 1)]
    whole = [([1], 0, 63, 0)]
    three = [([1, 2, 3], 0, 63, 0)]
    steps = [([1, 2, 3], 0, 0, 1), ([1], 1, 5, 2), ([2], 1, 63, 1), ([3], 1, 63, 1), ([1], 6, 63, 2), ([1], 1, 63, 0x21), ([1, 2, 3], 0, 0, 0x10)]
    all_of["jpeg"] = [
        all_pixels + jpeg(16, 16, 1, 0x11, whole), box + jpeg(24, 16, 3, 0x11, three), box + jpeg(32, 32, 3, 0x22, three),
        box + jpeg(33, 17, 3, 0x21, three), box + jpeg(16, 16, 3, 0x11, steps, True), box + jpeg(16, 16, 4, 0x11, [([1, 2, 3, 4], 0, 63, 0)]),
        box + jpeg(24, 24, 1, 0x11, whole, before=segment(0xDD, b"\0\1") + segment(0xEE, b"Adobe\0\x64\0\0\0\0\1")),
        # 128 x 64 pixels in arithmetic code. libjpeg guessed what no scan sends from blocks around the box.
        ("lacks_scans", box + b"\xff\xd8" + segment(0xDB, b"\0" + bytes([16] * 64)) +
         segment(0xCA, b"\x08\0\x40\0\x80\3\1\x21\0\2\x11\0\3\x11\0") + segment(0xDA, b"\3\1\0\2\0\3\0\0\0\0") +
         bytes(range(1, 9)) + b"\xff\xd9")]
    all_of["tar"] = [
        tar([("a.jpg", b"jpeg"), ("a.cls", b"3\n")]), tar([("d/a.cls", b"7")] + [("d/a.png", b"png"), ("d/a.txt", b"words")]),
        tar([("a.jpg", b"jpeg"), ("a.cls", b"3")], tarfile.GNU_FORMAT),
        tar([("\u00e9" * 60 + ".jpg", b"x"), ("\u00e9" * 60 + ".cls", b"3")], tarfile.PAX_FORMAT),
        tar([("a.jpg", b"jpeg"), ("a.cls", b"3")], tarfile.GNU_FORMAT, sparse=True), tar([("../a.jpg", b"jpeg")]),
        ("long_name", tar([(LONG[:3000] + ".jpg", b"jpeg")], tarfile.PAX_FORMAT))]
    body = manifest()
    report = json.dumps({"file": {"name": "rank-00000.safetensors", "bytes": 20, "sha256": "0" * 64},
                         "tensors": {"a": {"dtype": "F32", "shape": [4], "pieces": [[0, 0, 4]]}},
                         "sums": {"a": [1, 2]}})
    all_of["manifest"] = [body, body.replace("[[0, 0, 4]]", "[[0, 0, 1], [0, 1, 3]]"), body.replace("[2, 2]", "[0, 9]").replace("[[0, 0, 4]]", "[]"),
                          ("long_tensor", body.replace("a/master", LONG).replace("[2, 2]", "[2, 3]")),
                          *(("long_" + name, body.replace(word, LONG)) for name, word in (
                              ("format", "strata checkpoint 1"), ("dtype", "F32"), ("file", "rank-00000.safetensors")))]
    all_of["rank_report"] = [report, report.replace("[4]", "[]"), "{}"]
    index = json.dumps({"metadata": {}, "weight_map": {"a": "a.safetensors", "b": "b.safetensors"}}).encode()
    one, two = safetensors([("a", "F32", [1], 0, 4)], None, bytes(4)), safetensors([("b", "BF16", [2], 0, 4)], None, bytes(4))
    join = b"\n====\n".join
    all_of["weights_folder"] = [
        join([index, one, two]), join([index.replace(b"b.safe", b"a.safe"), one, two]), join([index.replace(b"b.safe", b"../b.safe"), one, two]),
        one, join([index, one, safetensors([("b", "F64", [1], 0, 8)], None, bytes(8))]), join([index, one, one]),
        join([index.replace(b'}}', b', "c": "a.safetensors"}}'), one, two]), join([index, safetensors([("a", "F16", [2], 0, 4)], None, bytes(4)), two]),
        ("long_tensor", join([index.replace(b'"a"', f'"{LONG}"'.encode()), one, two])),
        ("long_file", join([index.replace(b'"b.safe', f'"{LONG}.safe'.encode()), one, two]))]
    all_of["saved_layer"] = [saved_layer(), saved_layer({"direction": "backward", "op": ""}), saved_layer({"layer": 1.5}),
                             saved_layer({"tensors_sha256": "00ff"})]
    version, scalar = b"\x1a\x0dbrain.Event:2", b"\x2a\x0c\x0a\x0a\x0a\x03abc\x15" + struct.pack("<f", 1.5)
    all_of["event_file"] = [event(0, version), event(0, version) + event(3, scalar) + event(5, scalar) + event(9, scalar), event(0, version) + b"rest"]
    line = '{{"step":{0},"loss":2.5,"learning_rate":0.001}}\n'
    evaluation = '{{"step":{0},"validation_accuracy":0.5,"test_accuracy":0.25}}\n'
    all_of["best_evaluation"] = [
        line.format(1) + line.format(3), evaluation.format(3) + evaluation.format(5) + line.format(9), line.format(2) + '{"step":3,"loss":']
    function = PACKAGED_FUNCTION
    all_of["package_text"] = [
        package_text(functions) for functions in (function, function.replace("KEY", "other"), function.replace("\t2\n", "\tmany\n"), "")]
    return all_of


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "corpus")
    for target, contents in seeds().items():
        place = os.path.join(folder, target)
        os.makedirs(place, exist_ok=True)
        for number, content in enumerate(contents):
            # What was once a finding has a name.
            name, content = content if isinstance(content, tuple) else (f"{number:02}", content)
            with open(os.path.join(place, name), "wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)


if __name__ == "__main__":
    main()
