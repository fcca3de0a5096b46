# SPDX-License-Identifier: MIT
"""Checks prepare graph: the nouns of WordNet against published counts, and the errors for other files."""
import os
import subprocess
import sys
import unittest

import numpy

TMP = os.environ["TEST_TMPDIR"]
WORDNET = "/usr/share/wordnet/data.noun"
# Fields: offset, lexicographer file, n, words in hexadecimal, each with an id, pointers, each (kind, offset, part of
# speech, words), gloss
SMALL = """  1 This software and database is being provided to you, the LICENSEE
00000010 03 n 01 thing 0 002 ~ 00000020 n 0000 + 00000099 v 0101 | a Thing that is, or "was" a thing
00000020 05 n 02 dog 0 hound 1 003 @ 00000010 n 0000 ~ 00000030 n 0000 @ 00000020 n 0000 | a thing with legs
00000030 28 n 01 puppy 0 001 @ 00000020 n 0000 | 42
"""


class PrepareGraphTest(unittest.TestCase):
    def prepare(self, path, *arguments, code=0):
        self.output = os.path.join(TMP, "out", "graph.npz")
        done = subprocess.run([sys.executable, "tools/prepare_graph.py", "--input", path, "--output", self.output, *arguments],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def write(self, text):
        path = os.path.join(TMP, "data.noun")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_wordnet(self):
        said = self.prepare(WORDNET)
        self.assertIn("82,115 nodes of 26 classes, 115,310 undirected edges, 648,441 words of 2,000", said)
        graph = numpy.load(self.output)
        self.assertEqual(numpy.bincount(graph["labels"])[[0, 1, 15, 25]].tolist(), [51, 6650, 11087, 1028])
        degrees = numpy.diff(graph["adj_indptr"])
        self.assertEqual((degrees.min(), degrees.max(), degrees.sum()), (1, 671, 2 * 115310))
        # Numbers of nodes by FNV-1a of "wn:" + offset, modulo 10: 8312 8099 8129 8195 8144 8363 8022 8367 8278 8206.
        self.assertIn("split 8312 8099 8129 8195 8144 8363 8022 8367 8278 8206", said)
        sizes = [len(graph[name]) for name in ("train", "validation", "test")]
        self.assertEqual(sizes, [8312 + 8099 + 8129 + 8195 + 8144 + 8363, 8022 + 8367, 8278 + 8206])
        self.assertEqual(len(numpy.unique(numpy.concatenate([graph[name] for name in ("train", "validation", "test")]))), 82115)
        squares = numpy.add.reduceat(numpy.append(graph["attr_data"] ** 2, 0), graph["attr_indptr"][:-1])
        rows = numpy.diff(graph["attr_indptr"]) > 0
        self.assertEqual((~rows).sum(), 1207)  # glosses with rare words only
        numpy.testing.assert_allclose(squares[rows], 1, rtol=1e-5)

    def test_a_small_file(self):
        self.prepare(self.write(SMALL), "--words", "3")
        graph = numpy.load(self.output)
        self.assertEqual(graph["adj_indptr"].tolist(), [0, 1, 3, 4])
        self.assertEqual(graph["adj_indices"].tolist(), [1, 0, 2, 1])  # without the self loop
        self.assertEqual(graph["labels"].tolist(), [0, 2, 25])
        # "thing" is in two glosses. Of the words in one gloss, "is" and "legs" come first.
        self.assertEqual(graph["attr_indptr"].tolist(), [0, 2, 4, 4])
        self.assertEqual(graph["attr_indices"].tolist(), [0, 1, 0, 2])
        numpy.testing.assert_allclose(graph["attr_data"], 0.5**0.5)
        self.assertEqual(graph["attr_shape"].tolist(), [3, 3])

    def test_files_that_are_something_else(self):
        lines = SMALL.splitlines(keepends=True)
        for text, words in (("", "holds no synsets"), ("hello\n", ":1: is not a line of data.noun"), (SMALL.replace("05 n", "30 n"), ":3: is not a line"),
                            (lines[1], "synset 00000010 points to 00000020, which is not there"), (SMALL.replace("003 @", "009 @"), "9 pointers were announced, 3 are there"),
                            (SMALL.replace("legs", "l\u00e9gs"), "not ASCII")):
            self.assertIn(words, self.prepare(self.write(text), code=3))
        self.assertIn("there is no such file", self.prepare("/nowhere", code=3))

    def test_wrong_use_and_a_folder_that_cannot_be_written(self):
        self.prepare(WORDNET, "--words", "0", code=2)
        done = subprocess.run([sys.executable, "tools/prepare_graph.py", "--input", self.write(SMALL), "--output", "/proc/strata/graph.npz"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 4, done.stderr)


if __name__ == "__main__":
    unittest.main()
