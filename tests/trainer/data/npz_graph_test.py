# SPDX-License-Identifier: MIT
"""Checks graphs in .npz files: they are read as numpy wrote them, and refused with file and place if something is
wrong."""
import io
import json
import os
import random
import resource
import struct
import subprocess
import unittest
import warnings
import zipfile

import numpy
from forked_runs import ForkedRuns

PRINT_GRAPH = "tests/trainer/data/print_graph"
NODES, FEATURES, CLASSES = 6, 4, 3


def arrays(**changes):
    """A graph of six nodes: a circle 0-1, 1-2, 2-0; 3 leads to 0 and to itself; 0 leads to 4 twice; 5 has no edges."""
    rows, columns = numpy.array([0, 0, 0, 1, 2, 3, 3]), numpy.array([1, 4, 4, 2, 0, 0, 3])
    result = {
        "adj_data": numpy.ones(len(rows), numpy.float32), "adj_indices": columns.astype(numpy.int32),
        "adj_indptr": numpy.concatenate([[0], numpy.cumsum(numpy.bincount(rows, minlength=NODES))]).astype(numpy.int32),
        "adj_shape": numpy.array([NODES, NODES]),
        "attr_data": numpy.array([0.5, 1, 2, -1, 3], numpy.float32), "attr_indices": numpy.array([1, 0, 3, 2, 2], numpy.int32),
        "attr_indptr": numpy.array([0, 1, 3, 3, 4, 4, 5], numpy.int32), "attr_shape": numpy.array([NODES, FEATURES]),
        "labels": numpy.array([0, 1, 2, 0, 1, 2]), "train": numpy.array([4, 0, 2]), "validation": numpy.array([1]), "test": numpy.array([3, 5]),
    }
    result.update(changes)
    return {name: value for name, value in result.items() if value is not None}


def npy(array, **options):
    file = io.BytesIO()
    numpy.lib.format.write_array(file, numpy.asarray(array), **options)
    return file.getvalue()


class NpzGraphTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = cls.enterClassContext(ForkedRuns(PRINT_GRAPH))

    def setUp(self):
        self.path = os.path.join(os.environ["TEST_TMPDIR"], "graph.npz")

    def run_program(self, classes=CLASSES, direction="directed"):
        return self.program.run(str(classes), direction, "npz", self.path)

    def read(self, save=numpy.savez, direction="directed", **changes):
        save(self.path, **arrays(**changes))
        result = self.run_program(direction=direction)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def refusal(self, classes=CLASSES):
        result = self.run_program(classes=classes)
        self.assertEqual((result.returncode, result.stdout), (3, ""))
        self.assertEqual(result.stderr.count("\n"), 1)
        self.assertTrue(result.stderr.startswith(self.path + ": "), result.stderr)
        return result.stderr[len(self.path) + 2:-1]

    def test_reads_what_numpy_wrote(self):
        for save in (numpy.savez, numpy.savez_compressed):
            graph = self.read(save)
            self.assertEqual((graph["nodes"], graph["features"]), (NODES, FEATURES))
            self.assertEqual(graph["offsets"], [0, 2, 3, 4, 4, 5, 5])
            self.assertEqual(graph["neighbors"], [2, 3, 0, 1, 0])
            self.assertEqual(graph["sparse"], [[0, 1, 3, 3, 4, 4, 5], [1, 0, 3, 2, 2], [0.5, 1, 2, -1, 3]])
            self.assertEqual((graph["labels"], graph["train"], graph["validation"], graph["test"]), ([0, 1, 2, 0, 1, 2], [0, 2, 4], [1], [3, 5]))

    def test_nodes_in_no_split_may_have_no_class(self):
        labels = numpy.array([0, 1, 2, -1, 1, -1])
        self.assertEqual(self.read(labels=labels, test=None)["labels"], labels.tolist())
        for label in (-1, -2):  # node 3 is in a split, or has a number that marks nothing
            numpy.savez(self.path, **arrays(labels=numpy.array([0, 1, 2, label, 1, -1]), test=numpy.array([3]) if label == -1 else None))
            self.assertIn(f"the label of node 3 is {label}, outside of the 3 classes", self.refusal())

    def test_undirected(self):
        graph = self.read(direction="undirected")
        self.assertEqual(graph["offsets"], [0, 4, 6, 8, 9, 10, 10])
        self.assertEqual(graph["neighbors"], [1, 2, 3, 4, 0, 2, 0, 1, 0, 0])

    def test_other_types_of_numbers(self):
        expected = self.read()
        for integer in ("i8", "i4", "i2", "i1", "u4", "u2", "u1"):
            changes = {name: value.astype(integer) for name, value in arrays().items() if value.dtype.kind == "i"}
            self.assertEqual(self.read(attr_data=arrays()["attr_data"].astype("f8"), **changes), expected)

    def test_masks(self):
        masks = {}
        for name in ("train", "validation", "test"):
            masks[name] = numpy.zeros(NODES, bool)
            masks[name][arrays()[name]] = True
        self.assertEqual(self.read(**masks), self.read())

    def test_dense_features(self):
        features = numpy.arange(24, dtype=numpy.float32).reshape(6, 4)
        without = {name: None for name in arrays() if name.startswith("attr_")}
        self.assertEqual(self.read(**{**without, "attr_matrix": features})["dense"], features.ravel().tolist())

    def test_fingerprint_is_of_the_content(self):
        first = self.read()["fingerprint"]
        self.assertEqual(self.read(numpy.savez_compressed)["fingerprint"], first)
        for name, change in (("labels", [0, 1, 2, 0, 1, 1]), ("train", [4, 0]), ("test", [3]), ("attr_data", numpy.array([0.5, 1, 2, -1, 4], numpy.float32)),
                             ("adj_indices", [1, 4, 5, 2, 0, 0, 3])):
            self.assertNotEqual(self.read(**{name: numpy.array(change)})["fingerprint"], first, name)

    def test_wrong_contents_are_named(self):
        nan = numpy.array([0.5, numpy.nan, 2, -1, 3], numpy.float32)
        for changes, message in (
                ({"adj_indices": numpy.array([1, 4, 4, 2, 0, 6, 3])}, "adj_indices[5] is 6, which is not there; adj_shape says 0 to 5"),
                ({"adj_indices": numpy.array([1, 4, -1, 2, 0, 0, 3])}, "adj_indices[2] is -1, which is not there; adj_shape says 0 to 5"),
                ({"adj_indptr": numpy.array([0, 3, 2, 5, 7, 7, 7])}, "adj_indptr[2] is 2; expected 3 to 7"),
                ({"adj_indptr": numpy.array([0, 3, 4, 5, 7, 7])}, "adj_indptr has 6 numbers; expected 7, one more than the rows of adj_shape"),
                ({"adj_indptr": numpy.array([0, 3, 4, 5, 6, 6, 6])}, "adj_indptr ends at 6, and adj_indices has 7 numbers"),
                ({"adj_shape": numpy.array([6, 7])}, "adj_shape is 6 x 7; expected a square of nodes"),
                ({"adj_shape": numpy.array([-1, -1]), "adj_indptr": numpy.array([], numpy.int64), "adj_indices": numpy.array([], numpy.int64)},
                 "adj_shape is -1 x -1; expected 0 to 2^40 of each"),
                ({"adj_shape": numpy.array([2**63 - 1, 6])}, "adj_shape is 9223372036854775807 x 6; expected 0 to 2^40 of each"),
                ({"attr_shape": numpy.array([6, -4])}, "attr_shape is 6 x -4; expected 0 to 2^40 of each"),
                ({"attr_shape": numpy.array([5, 4]), "attr_indptr": numpy.array([0, 1, 3, 3, 4, 5])},
                 "attr_shape has features of 5 nodes, and adj_shape says 6"),
                ({"attr_indices": numpy.array([1, 0, 4, 2, 2])}, "attr_indices[2] is 4, which is not there; attr_shape says 0 to 3"),
                ({"attr_data": numpy.ones(4, numpy.float32)}, "attr_data has 4 values for the 5 of attr_indices"),
                ({"attr_data": nan}, "feature 0 of node 1 is nan; expected a number"),
                ({"attr_data": numpy.array([0.5, 1, 2, -1, numpy.inf])}, "feature 2 of node 5 is infinite; expected a number"),
                ({"attr_matrix": numpy.where(numpy.arange(24) == 9, numpy.nan, 1.0).reshape(6, 4)}, "feature 1 of node 2 is nan; expected a number"),
                ({"labels": numpy.array([0, 1, 2, 0, 3, 2])}, "the label of node 4 is 3, outside of the 3 classes of the model (model.classes)"),
                ({"labels": numpy.array([0, 1, -1, 0, 1, 2])}, "the label of node 2 is -1, outside of the 3 classes of the model (model.classes)"),
                ({"labels": numpy.array([0, 1, 2])}, "labels has 3 labels for the 6 nodes of adj_shape"),
                ({"train": numpy.array([0, 1, 2])}, "1 node is in train and in validation, the first is node 1"),
                ({"test": numpy.array([0, 4, 5])}, "2 nodes are in train and in test, the first is node 0"),
                ({"train": numpy.array([0, 2, 0])}, "train has node 0 twice"),
                ({"validation": numpy.array([], numpy.int64)}, "validation is empty; expected at least one node"),
                ({"train": numpy.array([0, 6])}, "train[1] is node 6, which is not there; there are 6 nodes"),
                ({"labels": None}, "labels is not among its arrays"),
                ({"validation": None}, "validation is not among its arrays"),
                ({"labels": numpy.array([0.0, 1, 2, 0, 1, 2])}, "labels holds values of dtype <f8; expected integers (<i8 <i4 <i2 |i1 <u4 <u2 |u1)"),
                ({"labels": numpy.array([0, 1, 2, 0, 1, 2], ">i8")}, "labels holds values of dtype >i8; expected integers (<i8 <i4 <i2 |i1 <u4 <u2 |u1)"),
                ({"train": numpy.array([True, False, True, False, True])}, "train is a mask of 5 booleans; expected 6, one for each item"),
                ({"train": numpy.zeros(NODES, bool)}, "train is empty; expected at least one node"),
                ({"train": numpy.array([0.0, 1])}, "train holds values of dtype <f8; expected integers or a mask (<i8 <i4 <i2 |i1 <u4 <u2 |u1 |b1)"),
                ({"labels": numpy.zeros(NODES, bool)}, "labels holds values of dtype |b1; expected integers (<i8 <i4 <i2 |i1 <u4 <u2 |u1)"),
                ({"labels": numpy.array([[0, 1, 2], [0, 1, 2]])}, "labels is 2 x 3; expected 1 dimension"),
                ({"attr_matrix": numpy.asfortranarray(numpy.ones((6, 4), numpy.float32))},
                 "attr_matrix is stored column by column (fortran_order); expected row by row"),
                ({"labels": numpy.array([0, 1, 2, None, 1, 2], object)}, "labels holds objects of Python (dtype |O), which are a pickle; no pickle is read")):
            with self.subTest(message):
                numpy.savez(self.path, **arrays(**changes))
                self.assertEqual(self.refusal(), message)

    def write_zip(self, method=zipfile.ZIP_STORED, **changes):
        """Writes the entries as they are given: bytes, or arrays."""
        with zipfile.ZipFile(self.path, "w", method) as archive:
            for name, value in arrays(**changes).items():
                archive.writestr(name + ".npy", value if isinstance(value, bytes) else npy(value))

    def test_a_compression_bomb(self):
        zeros = b"\0" * (1 << 20)
        with zipfile.ZipFile(self.path, "w", zipfile.ZIP_DEFLATED) as archive:
            with archive.open("labels.npy", "w") as entry:
                for _ in range(70):
                    entry.write(zeros)
        self.assertLess(os.path.getsize(self.path), 100 << 10)
        self.assertRegex(self.refusal(), r"^expands from \d+ to 73400320 bytes, more than 67108864 .*: a compression bomb; if")
        # 20 MiB of bytes are 160 MiB of int64.
        numpy.savez_compressed(self.path, **arrays(labels=numpy.zeros(20 << 20, numpy.uint8)))
        self.assertRegex(self.refusal(), r"^labels takes 20971520 x 8 bytes in memory, more than 67108864 .*: a compression bomb; if")
        # The header is right, but the entry it describes is wrong.
        self.write_zip(zipfile.ZIP_DEFLATED)
        with open(self.path, "rb") as file:
            data = bytearray(file.read())
        place = data.rindex(b"labels.npy") - 46
        self.assertEqual(data[place:place + 4], b"PK\x01\x02")
        data[place + 24:place + 28] = struct.pack("<I", 100)
        with open(self.path, "wb") as file:
            file.write(data)
        self.assertEqual(self.refusal(), "is damaged: an entry cannot be decompressed, or is not of the size that its directory says")

    def test_broken_headers(self):
        good = npy(numpy.array([0, 1, 2, 0, 1, 2]))
        for text, message in (
                (good[:6], "labels does not begin as an array of NumPy does"),
                (b"\x93NUMPX" + good[6:], "labels does not begin as an array of NumPy does"),
                (good[:6] + b"\x04" + good[7:], "labels has version 4 of NumPy's format; expected 1 to 3"),
                (good[:8] + b"\xff\xff" + good[10:], "labels was truncated in its header"),
                (good.replace(b"'shape'", b"'shqpe'"), "labels has a header that is not one of a plain array of numbers"),
                (good.replace(b"(6,)", b"(-1)"), "labels has a header that is not one of a plain array of numbers"),
                (good.replace(b"(6,)", b"(7,)"), "labels says that it is 7, more than is there"),
                (good.replace(b"(6,)", b"(5,)"), "labels says that it is 5, and has another number of values"),
                (good.replace(b"(6,), }                     ", b"(999999999999999999,), }"), None),
                (good[:-1], "labels says that it is 6, more than is there")):
            self.write_zip(labels=text)
            refusal = self.refusal()
            if message:
                self.assertEqual(refusal, message)

    def test_broken_archives(self):
        with open(self.path, "wb") as file:
            file.write(b"PK\x05\x06")
        self.assertEqual(self.refusal(), "is not a ZIP archive: it has only 4 bytes")
        with open(self.path, "wb") as file:
            file.write(b"not a zip archive " * 20)
        self.assertEqual(self.refusal(), "is not a ZIP archive, or was truncated: the end of its directory is missing")
        numpy.savez(self.path, **arrays())
        os.truncate(self.path, os.path.getsize(self.path) // 2)
        self.assertIn("is not a ZIP archive, or was truncated", self.refusal())
        with zipfile.ZipFile(self.path, "w", zipfile.ZIP_BZIP2) as archive:
            archive.writestr("labels.npy", npy(numpy.zeros(6)))
        self.assertEqual(self.refusal(), "entry 0 is compressed by method 12; expected stored or deflated")
        os.unlink(self.path)
        self.assertEqual(self.refusal(), "is not there, or not a regular file")

    def test_lying_directories(self):
        numpy.savez(self.path, **arrays())
        with open(self.path, "rb") as file:
            good = file.read()
        place = good.rindex(b"labels.npy") - 46
        for offset, field, message in (
                (8, b"\1\0", "entry 8 is encrypted"),
                (16, b"\0\0\0\0", "is damaged: an entry does not have the size or the checksum that its directory says"),
                (20, b"\xff\xff\xff\x7f", "is damaged: its entries overlap or are more than the file"),
                (24, b"\x01\0\0\0", "is damaged: an entry does not have the size or the checksum that its directory says"),
                (24, b"\xff\xff\xff\xff", "entry 8 is larger than 4 GiB; entries of that size are not read"),
                (28, b"\xff\xff", "is damaged: its directory ends in an entry"),
                (good.index(b"labels.npy") - place, b"lobels.npy", "is damaged: an entry has another name than its directory says"),
                (len(good) - 22 + 4 - place, b"\1\0", "is one of several parts of an archive; expected a whole one"),
                (len(good) - 22 + 6 - place, b"\1\0", "is one of several parts of an archive; expected a whole one"),
                (len(good) - 22 + 8 - place, b"\1\0", "is one of several parts of an archive; expected a whole one"),
                (len(good) - 22 + 20 - place, b"\1\0", "is damaged: its comment has 1 bytes, and 0 follow the end of its directory"),
                (42, b"\1\0\0\0", "is damaged: an entry does not begin where its directory says"),
                (42, b"\xff\xff\xff\x7f", "was truncated or is damaged: it speaks of bytes 2147483647 to 2147483677 and has %d" % len(good))):
            with self.subTest(message):
                at = place + offset
                with open(self.path, "wb") as file:
                    file.write(good[:at] + field + good[at + len(field):])
                self.assertEqual(self.refusal(), message)
        with zipfile.ZipFile(self.path, "w") as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in ("a", "b", "a"):
                archive.writestr(name, b"")
        self.assertEqual(self.refusal(), "has two entries of the same name, the first of them entry 0")

    def test_many_entries_take_no_time(self):
        with zipfile.ZipFile(self.path, "w") as archive:
            for i in range(65000):
                archive.writestr("%05d" % i, b"")
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        result = subprocess.run([PRINT_GRAPH, str(CLASSES), "directed", "npz", self.path], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((result.returncode, result.stderr), (3, self.path + ": adj_shape is not among its arrays\n"))
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, 3)  # a comparison of all pairs would take 10 s

    def test_damaged_bytes_never_crash_it(self):
        numpy.savez_compressed(self.path, **arrays())
        with open(self.path, "rb") as file:
            good = file.read()
        numbers = random.Random(1)
        outcomes = set()
        for _ in range(40):
            data = bytearray(good)
            for _ in range(numbers.randrange(1, 4)):
                data[numbers.randrange(len(data))] = numbers.randrange(256)
            with open(self.path, "wb") as file:
                file.write(data[:numbers.choice([len(data), len(data), numbers.randrange(len(data))])])
            outcomes.add(self.run_program().returncode)
        self.assertEqual(outcomes, {0, 3})


if __name__ == "__main__":
    unittest.main()
