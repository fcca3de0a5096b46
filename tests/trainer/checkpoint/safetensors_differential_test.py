# SPDX-License-Identifier: MIT
"""Compares the reader of Strata with the safetensors package on mutated files. Strata may only be stricter, for the
listed reasons."""

import collections
import json
import os
import random
import subprocess
import tempfile
import unittest

import safetensors

CHECK = "tests/trainer/checkpoint/check_safetensors"
FILES = 100_000 if "STRATA_TEST_ALL" in os.environ else 5_000
BATCH = 500

# Files that the package accepts and Strata refuses, with the reason.
STRICTER = {
    "stands twice": "the package keeps the last of two equal names",
    "has an unknown key": "the package ignores what it does not know",
    "has the unknown dtype": "floats of 4 and 6 bits, and F8_E8M0, which no tensor of ours has",
    "a name with a NUL byte": "no name of ours has one",
    "does not begin with '{'": "the format demands it, the package does not check",
    "does not end with '}' and spaces": "other white space can carry a payload",
    "extent above 2^63": "sizes are signed here",
    "unexpected null at '__metadata__'": "an absent value is left out, not null",
}

SEEDS = [
    {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}},
    {"__metadata__": {"format": "pt"}, "a": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]},
     "b": {"dtype": "U8", "shape": [], "data_offsets": [8, 9]}},
    {"b": {"dtype": "I64", "shape": [0, 3], "data_offsets": [0, 0]},
     "a": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}},
    {},
]
NUMBERS = [-1, 0, 1, 2, 3, 4, 8, 9, 16, 1.5, 2.0, 2**31, 2**32, 2**62 + 1, 2**63, 2**64 - 1, 2**64, 1e30]
VALUES = NUMBERS + ["", "F32", "F4", "BOOL", "pt", None, True, [], [0], [0, 8], [8, 0], [0, 8, 8], {}, {"x": "y"}]
SNIPPETS = [b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\0", b"\xff", b" ", b"\n", b"0", b"-", b".", b"e5", b'"a"',
            b'"dtype"', b'"__metadata__"', b"null", b"\\u0000", b"\xc3\xa9"]


def mutated_tree(chance, node):
    """Returns the JSON value with one part replaced, removed or added."""
    if isinstance(node, dict) and node and chance.random() < 0.8:
        key = chance.choice(list(node))
        action = chance.random()
        if action < 0.7:
            return {**node, key: mutated_tree(chance, node[key])}
        if action < 0.85:
            return {name: value for name, value in node.items() if name != key}
        return {**node, chance.choice(["x", "a", "dtype", "__metadata__", "\0"]): chance.choice([node[key], *VALUES])}
    if isinstance(node, list) and node and chance.random() < 0.7:
        index = chance.randrange(len(node))
        return node[:index] + [chance.choice(NUMBERS)] + node[index + 1:]
    return chance.choice(VALUES)


def mutated_file(chance):
    tree = chance.choice(SEEDS)
    data = max([tensor["data_offsets"][1] for name, tensor in tree.items() if name != "__metadata__"], default=0)
    for _ in range(chance.choice([0, 1, 1, 2])):
        tree = mutated_tree(chance, tree)
    header = json.dumps(tree).encode()
    if chance.random() < 0.02 and len(header) > 2:
        header = header[:-1] + b", " + header[1:]  # every member twice
    for _ in range(chance.choice([0, 0, 0, 1, 2])):
        at = chance.randrange(len(header) + 1)
        header = header[:at] + chance.choice(SNIPPETS) + header[at + chance.choice([0, 0, 1, 4]):]
    header += b" " * chance.choice([0, 0, 8 - len(header) % 8])
    length = len(header) + (chance.choice([-8, -1, 1, 2**32, 2**63]) if chance.random() < 0.03 else 0)
    data += chance.choice([-1, 1]) if chance.random() < 0.05 else 0
    return (length % 2**64).to_bytes(8, "little") + header + b"x" * max(data, 0)


def accepted(path):
    try:
        with safetensors.safe_open(path, "numpy"):
            return True
    except Exception:  # any exception of the package counts as a refusal
        return False


class DifferentialTest(unittest.TestCase):
    def test_same_verdicts(self):
        chance = random.Random(1)
        count = collections.Counter()
        stricter = collections.Counter()
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(FILES // BATCH):
                contents = [mutated_file(chance) for _ in range(BATCH)]
                paths = [f"{folder}/{i}" for i in range(BATCH)]
                for path, content in zip(paths, contents):
                    with open(path, "wb") as file:
                        file.write(content)
                said = subprocess.run([CHECK], input="\n".join(paths) + "\n", capture_output=True, check=True, text=True,
                                      errors="replace").stdout.splitlines()
                self.assertEqual(len(said), BATCH)
                for path, content, ours in zip(paths, contents, said):
                    theirs = accepted(path)
                    count[ours == "accepted", theirs] += 1
                    if ours == "accepted":
                        self.assertTrue(theirs, content)
                    elif theirs:
                        reasons = [reason for reason in STRICTER if reason in ours]
                        self.assertTrue(reasons, f"{ours}: {content}")
                        stricter[reasons[0]] += 1
        print(f"both accept {count[True, True]}, both refuse {count[False, False]}, only we refuse {dict(stricter)}")
        self.assertGreater(count[True, True], FILES // 50)
        self.assertGreater(count[False, False], FILES // 2)
