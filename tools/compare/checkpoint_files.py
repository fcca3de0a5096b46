# SPDX-License-Identifier: MIT
"""Reads a checkpoint without LibTorch: manifest.json and rank-*.safetensors, as trainer/checkpoint/checkpoint.h describes them."""
import hashlib
import json
import math
import os
import re

import numpy

from bad_input import BadInput

FORMAT = "strata checkpoint 1"
HASH_LINE = re.compile(rb',\n"sha256": "([0-9a-f]{64})"\n}\n\Z')
# The bits of an element. BF16 has no NumPy type.
BITS = {8: numpy.uint64, 4: numpy.uint32, 2: numpy.uint16, 1: numpy.uint8}
BYTES = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2, "I8": 1, "U8": 1, "BOOL": 1}
NUMBERS = {"F": "f", "I": "i", "U": "u", "B": "u"}  # NumPy's letter of a type


class Checkpoint:
    """`tensors` has {name: {"dtype", "shape", "pieces"}} as in the manifest."""

    def __init__(self, folder):
        self.folder, path = folder, os.path.join(folder, "manifest.json")
        with open(path, "rb") as file:
            text = file.read()
        end = HASH_LINE.search(text)
        if not end or hashlib.sha256(text[:end.start()]).hexdigest().encode() != end.group(1):
            raise BadInput(f"{path}: is damaged: it does not have the hash that its last line says; expected a whole checkpoint")
        try:
            self.read(path, json.loads(text))
        except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
            raise BadInput(f"{path}: does not describe its files or tensors as a checkpoint does ({error!r}); "
                           "expected one that Strata has written") from error

    def read(self, path, manifest):
        if manifest.get("format") != FORMAT:
            raise BadInput(f"{path}: has the format '{manifest.get('format')}', expected '{FORMAT}'; use the version of Strata that wrote it")
        self.step, self.tensors = manifest["step"], manifest["tensors"]
        self.files = [self.open(file) for file in manifest["files"]]
        for name, tensor in self.tensors.items():
            if tensor["dtype"] not in BYTES:
                raise BadInput(f"{path}: {name} has the type {tensor['dtype']}, expected one of {', '.join(BYTES)}")
            covered = 0
            for file, offset, count in tensor["pieces"]:
                if offset != covered or count < 0 or len(self.files[file][name]) != count * BYTES[tensor["dtype"]]:
                    raise BadInput(f"{path}: the piece of {name} at element {offset} does not begin at element {covered}, "
                                   f"where the piece before it ends, or does not have {count} elements in its file")
                covered += count
            if covered != math.prod(tensor["shape"]):
                raise BadInput(f"{path}: the pieces of {name} have {covered} elements, expected {math.prod(tensor['shape'])} as in its shape")

    def open(self, file):
        """Returns {name: bytes of its piece} of one file, whose hash is verified."""
        path = os.path.join(self.folder, os.path.basename(file["name"]))
        with open(path, "rb") as opened:
            found = hashlib.file_digest(opened, "sha256").hexdigest()
            if found != file["sha256"]:
                raise BadInput(f"{path}: is damaged: its SHA-256 is {found}, expected {file['sha256']} as in manifest.json")
            opened.seek(0)
            length = int.from_bytes(opened.read(8), "little")
            header = json.loads(opened.read(length))
        data = numpy.memmap(path, mode="r", offset=8 + length) if os.path.getsize(path) > 8 + length else numpy.empty(0, numpy.uint8)
        header.pop("__metadata__", None)
        return {name: data[slice(*entry["data_offsets"])] for name, entry in header.items()}

    def bits(self, name, begin, end):
        """Returns the elements begin to end of a flattened tensor as unsigned numbers."""
        tensor, parts = self.tensors[name], []
        width = BYTES[tensor["dtype"]]
        for file, offset, count in tensor["pieces"]:
            low, high = max(begin, offset), min(end, offset + count)
            if low < high:
                parts.append(self.files[file][name][(low - offset) * width:(high - offset) * width].view(BITS[width]))
        return numpy.concatenate(parts)


def numbers(bits, dtype):
    """Returns what the bits of a dtype mean, as float64."""
    if dtype == "BF16":
        return (bits.astype(numpy.uint32) << 16).view(numpy.float32).astype(float)
    return bits.view(f"{NUMBERS[dtype[0]]}{BYTES[dtype]}").astype(float)
