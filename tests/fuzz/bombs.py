# SPDX-License-Identifier: MIT
"""Files that are cheap to write and would be dear to read: many parts, deep nesting, much that is compressed into little."""
import gzip
import io
import json
import struct
import tarfile
import zlib

import make_corpus as files

ALL_PIXELS = b"\0\0\xff\xff"  # the box that the targets of images read first
MIB = 1 << 20


def deep(count):
    return "[" * count + "]" * count


def many_tensors(count):
    return files.safetensors([(f"tensor.{i}", "F32", [0], 0, 0) for i in range(count)])


def manifest_with(name, value):
    """A manifest without its last line, with another value of one key."""
    return ",\n".join(f'"{name}": {value}' if line.startswith(f'"{name}"') else line for line in files.manifest().split(",\n"))


def report_with(tensors):
    return '{"file": {"name": "rank-00000.safetensors", "bytes": 20, "sha256": "%s"}, "tensors": %s, "sums": {}}' % ("0" * 64, tensors)


def index_of(count):
    return json.dumps({"weight_map": {f"tensor.{i}": "a.safetensors" for i in range(count)}}).encode()


def tar_of(count):
    """An archive of `count` samples."""
    return files.tar([part for i in range(count) for part in ((f"{i:08}.jpg", b"jpeg"), (f"{i:08}.cls", b"3"))])


def tar_with(records):
    """An archive whose first file has these PAX records."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in (("a.jpg", b"jpeg"), ("a.cls", b"3")):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            if name == "a.jpg":
                info.pax_headers = records
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_with(before):
    return ALL_PIXELS + files.png(32, 32, 2, 8, (b"\0" + bytes(96)) * 32, before)


def png_of(side):
    """A gray image without light."""
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes((side + 1) * side), 9)
    return ALL_PIXELS + b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def jpeg_of(side, scans):
    """A progressive image without light. The AC scans are runs of blocks that end at once, 18 bits for 32,767 blocks."""
    blocks = (side // 8) ** 2

    def packed(bits):
        bits += "1" * (-len(bits) % 8)
        return int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")
    frame = struct.pack(">BHHB", 8, side, side, 1) + bytes([1, 0x11, 0])
    image = b"\xff\xd8" + files.segment(0xDB, b"\0" + bytes([16] * 64)) + files.segment(0xC2, frame)
    image += files.huffman(0x00, [0]) + files.huffman(0x10, [0xE0])
    # The one code of each table is 0000. The code 0xE0 is followed by 14 bits, which are added to 16,384 blocks.
    image += files.segment(0xDA, bytes([1, 1, 0, 0, 0, 0])) + packed("0000" * blocks)
    runs, rest = divmod(blocks, 32767)
    if rest:  # the last run may go beyond the last block
        runs += 1
    scan = files.segment(0xDA, bytes([1, 1, 0, 1, 63, 0])) + packed(("0000" + "1" * 14) * runs)
    return ALL_PIXELS + image + scan * scans + b"\xff\xd9"


def plan_of(rows):
    row = '  - {op: linear, shape: "8 x 8", level: aten, uses: 2, forward: 1.5, backward: 2.25, error: 0.1}\n'
    return "config: a.yaml\ndevice: cpu\ntorch: 2.9.0\nkernels: 0123456789abcdef\nmodel: 0123456789abcdef\nmeasured:\n" + row * rows


def package_of(functions):
    return files.package_text(files.PACKAGED_FUNCTION * functions)


def event_file_of(count):
    scalar = b"\x2a\x0c\x0a\x0a\x0a\x03abc\x15" + struct.pack("<f", 1.5)
    return files.event(0, b"\x1a\x0dbrain.Event:2") + files.event(3, scalar) * count


def npy_header(text):
    return b"\0" + files.zipped([("a.npy", b"\x93NUMPY\x02\0" + struct.pack("<I", len(text)) + text)], 8)


# (target, what is in the file, the file of n parts, n, MiB of memory that are allowed besides 16 times the file). Readers of
# compressed files may unpack 64 MiB of the smallest file, and make numbers of 64 MiB from them.
UNPACKED, IMAGE = 256, 600
TOKENS = 128  # yaml-cpp reads all tokens that may begin a key before it parses them
BOMBS = [
    ("safetensors", "tensors", many_tensors, 25_000, 64),
    ("safetensors", "metadata", lambda n: files.safetensors([], {str(i): "" for i in range(n)}), 5_000, 64),
    ("safetensors", "lists in lists", lambda n: struct.pack("<Q", 2 * n + 6) + b'{"a":' + deep(n).encode() + b"}", 500_000, 64),
    ("weights_folder", "names", lambda n: b"\n====\n".join([index_of(n), many_tensors(n), files.safetensors([])]), 20_000, 64),
    ("weights_folder", "lists in lists", lambda n: b'{"weight_map":{"a":' + deep(n).encode() + b"}}\n====\n", 400_000, 64),
    ("weights_folder", "a word that does not end", lambda n: b'{"weight_map":"' + b"a" * n + b"\n====\n", 1_000_000, 64),
    ("saved_layer", "tensors", lambda n: files.saved_layer(None, files.safetensors([(f"weight.{i}", "F32", [0], 0, 0) for i in range(n)])), 25_000, 64),
    ("saved_layer", "lists in lists", lambda n: files.saved_layer().replace(b'"tensors": {}', b'"tensors": ' + deep(n).encode()), 500_000, 64),
    ("saved_layer", "a long text", lambda n: files.saved_layer({"name": "a" * n}), 1_000_000, 64),
    ("saved_layer", "keys", lambda n: files.saved_layer({str(i): i for i in range(n)}), 50_000, 64),
    ("manifest", "objects", lambda n: manifest_with("files", "[" + "{}," * n + "{}]"), 100_000, 64),
    ("manifest", "lists in lists", lambda n: manifest_with("files", deep(n)), 500_000, 64),
    ("manifest", "tensors", lambda n: manifest_with("tensors", json.dumps({str(i): {"dtype": "I8", "shape": [0], "pieces": []} for i in range(n)})),
     10_000, 64),
    ("manifest", "pieces", lambda n: manifest_with("tensors", json.dumps({"a": {"dtype": "I8", "shape": [n], "pieces": [[0, i, 1] for i in range(n)]}})),
     50_000, 64),
    ("rank_report", "objects", lambda n: report_with('{"a": {"dtype": "I8", "pieces": [], "shape": [' + "{}," * n + "{}]}}"), 100_000, 64),
    ("rank_report", "lists in lists", lambda n: report_with(deep(n)), 500_000, 64),
    ("hf_config", "lists in lists", lambda n: '{"model_type":' + deep(n) + "}", 400_000, 64),
    ("hf_config", "keys", lambda n: json.dumps({"model_type": "gpt2", **{str(i): i for i in range(n)}}), 100_000, 64),
    ("hf_config", "a word that does not end", lambda n: '{"model_type":"' + "a" * n, 1_000_000, 64),
    ("sidecar", "lists in lists", lambda n: '{"bytes":1,"tokens":20,"more":' + deep(n) + "}", 500_000, 64),
    ("sidecar", "keys", lambda n: json.dumps({"bytes": 1, "tokens": 20, **{str(i): i for i in range(n)}}), 100_000, 64),
    ("config", "unknown keys", lambda n: files.CONFIG + "".join(f"stepz{i}: 1\n" for i in range(n)), 20_000, 64),
    ("config", "values", lambda n: files.CONFIG + "gradient_checkpointing: [" + "0, " * n + "0]\n", 45_000, 64),
    ("config", "lists in lists", lambda n: "steps: " + deep(n) + "\n", 250_000, TOKENS),
    ("config", "lists in lines", lambda n: "steps:\n" + " - " + "- " * n + "1\n", 100_000, 64),
    ("config", "aliases of lists", lambda n: "a: &a [" + "1, " * n + "1]\nb: [" + "*a, " * n + "1]\n", 20_000, 64),
    ("config", "anchors", lambda n: "steps: [" + "".join(f"&a{i} 1, " for i in range(n)) + "1]\n", 30_000, 64),
    ("config", "a long text", lambda n: files.CONFIG.replace("runs/test", "a" * n), 500_000, 64),
    ("overrides", "overrides", lambda n: "steps=200\n" * n, 2_000, 64),
    ("overrides", "a long path", lambda n: "model" + ".a" * n + "=1", 100_000, 64),
    ("attention_pattern", "parentheses", lambda n: "(" * n + "full" + ")" * n, 1_000_000, 64),
    ("attention_pattern", "words", lambda n: "full" + "|full" * n, 500_000, 64),
    ("kernel_plan", "rows", plan_of, 3_000, 64),
    ("zip", "entries", lambda n: files.zipped([(f"name{i}", b"") for i in range(n)]), 20_000, 64),
    ("zip", "zeros", lambda n: files.zipped([("a", bytes(n))], 8), 32 * MIB - 1, UNPACKED),
    ("zip", "more zeros than are unpacked", lambda n: files.zipped([("a", bytes(n))], 8), 80 * MIB, 64),
    ("npz", "bytes that become integers", lambda n: b"\0" + files.zipped([("a.npy", files.npy("|u1", f"({n},)", bytes(n)))], 8), 4 * MIB, UNPACKED),
    ("npz", "a long type", lambda n: npy_header(b"{'descr': '" + b"f" * n + b"', 'fortran_order': False, 'shape': (1,), }"), 8 * MIB, UNPACKED),
    ("npz", "a long shape", lambda n: npy_header(b"{'descr': '<i8', 'fortran_order': False, 'shape': (" + b"1," * n + b"), }"), 4 * MIB, UNPACKED),
    ("number_file", "lines", lambda n: b"\0" + gzip.compress(b"0\n" * n, mtime=0), 2 * MIB, UNPACKED),
    ("number_file", "one line", lambda n: b"\0" + gzip.compress(b"0 " * n, mtime=0), 4 * MIB, UNPACKED),
    ("number_file", "entries", lambda n: b"\x08" + gzip.compress(b"0 0\n" * n, mtime=0), 1 * MIB, UNPACKED),
    ("number_file", "a line that does not end", lambda n: b"\0" + gzip.compress(b" " * n, mtime=0), 32 * MIB, UNPACKED),
    ("idx", "zeros", lambda n: b"\1" + gzip.compress(files.idx([n], bytes(n)), mtime=0), 32 * MIB, UNPACKED),
    ("tar", "samples", tar_of, 3_000, 64),
    ("tar", "a long name", lambda n: files.tar([("a" * n + ".jpg", b"jpeg"), ("a" * n + ".cls", b"3")], tarfile.GNU_FORMAT), 400_000, 64),
    ("tar", "a long name that leads out", lambda n: files.tar([("../" + "a" * n, b"jpeg")], tarfile.GNU_FORMAT), 400_000, 64),
    ("tar", "records", lambda n: tar_with({f"a{i}": "b" for i in range(n)}), 20_000, 64),
    ("tar", "holes", lambda n: tar_with({"GNU.sparse.map": ",".join(f"{2 * i},1" for i in range(n)), "GNU.sparse.size": str(2 * n)}), 30_000, 64),
    ("jpeg", "scans", lambda n: jpeg_of(2048, n), 240, 64),
    ("jpeg", "more scans than are read", lambda n: jpeg_of(2048, n), 5_000, 64),
    ("jpeg", "pixels", lambda n: jpeg_of(8 * int(n ** 0.5), 1), 65_536, IMAGE),
    ("png", "texts", lambda n: png_with(chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(7_900_000), 9)) * n), 50, 64),
    ("png", "pixels", lambda n: png_of(int(n ** 0.5)), 8 * MIB, IMAGE),
    ("png", "empty parts of pixels", lambda n: png_with(chunk(b"IDAT", b"") * n), 50_000, 64),
    ("document_ends", "documents", lambda n: files.document_ends([7] * n, 20), 1_000_000, 64),
    ("token_file", "tokens", lambda n: files.tokens(20240520, 1, [7] * n, "H"), 1_000_000, 64),
    ("event_file", "events", event_file_of, 20_000, 64),
    ("best_evaluation", "lines", lambda n: '{"step":3,"validation_accuracy":0.5,"test_accuracy":0.25}\n' * n, 20_000, 64),
    ("best_evaluation", "lists in lists", lambda n: '{"step":3,"test_accuracy":' + deep(n) + "}\n", 500_000, 64),
    ("package_text", "functions", package_of, 3_000, 64),
    ("package_text", "a line without fields", lambda n: package_of(1).replace("function", "a" * n), 1_000_000, 64),
    ("package_text", "dimensions", lambda n: package_of(1).replace("n,d", "n," * n + "d"), 200_000, 64),
]
