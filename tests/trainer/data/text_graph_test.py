# SPDX-License-Identifier: MIT
"""Checks graphs in text files and in OGB's folders: they are read as written, and refused with file and line if
something is wrong."""
import gzip
import json
import os
import shutil
import signal
import subprocess
import unittest

from forked_runs import ForkedRuns

PRINT_GRAPH = "tests/trainer/data/print_graph"
CLASSES = 3
FILES = {
    "raw/edge.csv.gz": "1,0\n2,0\n0,2\n3,3\n2,0\n", "raw/node-feat.csv.gz": "0.5,-1\n2,1e-3\n3,4\n5,6\n", "raw/node-label.csv.gz": "0\n2\n1\n0\n",
    "raw/num-node-list.csv.gz": "4\n", "raw/num-edge-list.csv.gz": "5\n",
    "split/time/train.csv.gz": "2\n0\n", "split/time/valid.csv.gz": "1\n", "split/time/test.csv.gz": "3\n",
}
# Three graphs, of 2, 1 and 3 nodes.
GRAPHS = {
    "raw/edge.csv.gz": "0,1\n2,0\n1,2\n1,2\n", "raw/node-feat.csv.gz": "1\n2\n3\n4\n5\n6\n", "raw/graph-label.csv.gz": "2\n0\n1\n",
    "raw/num-node-list.csv.gz": "2\n1\n3\n", "raw/num-edge-list.csv.gz": "1\n0\n3\n",
    "split/time/train.csv.gz": "2\n", "split/time/valid.csv.gz": "0\n", "split/time/test.csv.gz": "1\n",
}
GRAPH = {"nodes": 4, "features": 2, "offsets": [0, 2, 2, 3, 3], "neighbors": [1, 2, 0], "dense": [0.5, -1, 2, 0.001, 3, 4, 5, 6], "labels": [0, 2, 1, 0],
         "train": [0, 2], "validation": [1], "test": [3]}


class TextGraphTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = cls.enterClassContext(ForkedRuns(PRINT_GRAPH))

    def setUp(self):
        self.folder = os.path.join(os.environ["TEST_TMPDIR"], "graph")
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, changes=None, compress=gzip.open, files=None):
        for name, text in {**(files or FILES), **(changes or {})}.items():
            os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
            with compress(self.path(name), "wb") as file:
                file.write(text.encode())

    def run_program(self, *arguments, direction="directed"):
        return self.program.run(str(CLASSES), direction, *arguments)

    def test_a_run_that_crashes_is_reported_and_the_next_one_is_not_touched(self):
        self.write()
        self.assertEqual(self.program.run("no number", "directed", "ogb", self.folder, "").returncode, -signal.SIGABRT)
        self.assertEqual(self.ogb().returncode, 0)

    def ogb(self, split="", **options):
        return self.run_program("ogb", self.folder, split, **options)

    def plain(self, *test, sparse_columns=""):
        names = ("raw/edge.csv.gz", "raw/node-feat.csv.gz", "raw/node-label.csv.gz", "split/time/train.csv.gz", "split/time/valid.csv.gz")
        return self.run_program("text", *[self.path(name) for name in (*names, *test)], *["" for _ in range(1 - len(test))], sparse_columns)

    def test_reads_what_was_written(self):
        for compress in (gzip.open, open):
            self.write(compress=compress)
            for result in (self.ogb(), self.ogb("time")):
                self.assertEqual(result.returncode, 0, result.stderr)
                found = json.loads(result.stdout)
                for name, value in GRAPH.items():
                    if name == "dense":
                        self.assertTrue(all(abs(a - b) < 1e-6 for a, b in zip(found[name], value, strict=True)))
                    else:
                        self.assertEqual(found[name], value, name)
            self.assertEqual(json.loads(self.plain().stdout)["neighbors"], GRAPH["neighbors"])
            self.assertIsNone(json.loads(self.plain().stdout)["test"])
            self.assertEqual(json.loads(self.plain("split/time/test.csv.gz").stdout)["test"], GRAPH["test"])
        self.assertEqual(json.loads(self.ogb(direction="undirected").stdout)["neighbors"], [1, 2, 0, 0])

    def test_other_separators_and_ends_of_lines(self):
        self.write({"raw/edge.csv.gz": "1 0\r\n2\t0\r\n0;2\r\n 3, 3\r\n2  0", "split/time/train.csv.gz": "2\n0"})
        self.assertEqual(json.loads(self.ogb().stdout)["neighbors"], GRAPH["neighbors"])

    def test_blanks_around_separators(self):
        self.write({"raw/edge.csv.gz": "1 , 0\n2\t;0 \n 0 ,2\t\r\n3, 3\n2 ;\t 0"})
        self.assertEqual(json.loads(self.ogb().stdout)["neighbors"], GRAPH["neighbors"])
        for text, message in (("1 , , 0\n", "expected an integer, got ', 0'"), (", 1\n", "expected an integer, got ', 1'"), ("1 x\n", "expected an integer, got 'x'")):
            self.write({"raw/edge.csv.gz": text})
            self.assertEqual(self.ogb().stderr, f"{self.path('raw/edge.csv.gz')}:1: {message}\n")

    def test_a_file_whose_size_cannot_be_read(self):
        self.write()
        path, trace = self.path("raw/edge.csv.gz"), self.path("trace")
        result = subprocess.run(["strace", "-o", trace, "-P", path, "-e", "trace=stat,openat,close", "-e", "inject=stat:error=EIO:when=2",
                                 PRINT_GRAPH, str(CLASSES), "directed", "ogb", self.folder, ""], capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, result.stderr), (3, path + ": cannot be opened: Input/output error\n"))
        with open(trace, encoding="utf-8") as file:
            self.assertEqual([line.partition("(")[0] for line in file if not line.startswith("+++")], ["stat", "stat"])  # nothing is left open

    def test_wrong_contents_are_named(self):
        lines_of_features = ", the lines of " + self.path("raw/node-feat.csv.gz")
        for name, text, message in (
                ("raw/edge.csv.gz", "1,0\n2,4\n0,2\n3,3\n2,0\n", ":2: node 4 is not there; there are 4 nodes" + lines_of_features),
                ("raw/edge.csv.gz", "1,0\n2,0\n0,2\n-3,3\n2,0\n", ":4: node -3 is not there; there are 4 nodes" + lines_of_features),
                ("raw/edge.csv.gz", "1,0\n2,0,1\n", ":2: expected 2 numbers, got 3"),
                ("raw/edge.csv.gz", "1,0\n2\n", ":2: expected 2 numbers, got 1"),
                ("raw/edge.csv.gz", "1,0\n\n2,0\n", ":2: expected 2 numbers, got 0"),
                ("raw/edge.csv.gz", "1,0\n2,x\n", ":2: expected an integer, got 'x'"),
                ("raw/edge.csv.gz", "1,0\n2,0.5\n", ":2: expected an integer, got '0.5'"),
                ("raw/edge.csv.gz", "1,99999999999999999999\n", ":1: expected an integer, got '99999999999999999999'"),
                ("raw/num-edge-list.csv.gz", "6\n", ":1: graph 0 has 6 edges; expected 0 to 5, of 5 that are there"),
                ("raw/num-node-list.csv.gz", "3\n", ": says that there are 3 nodes, and 4 are there"),
                ("raw/num-edge-list.csv.gz", "4\n", ": says that there are 4 edges, and 5 are there"),
                ("raw/node-feat.csv.gz", "1,2\n3,4\n5\n6,7\n", ":3: expected 2 numbers, got 1"),
                ("raw/node-feat.csv.gz", "1,2\n3,\x1b[4m\n", ":2: expected a finite number, got '?[4m'"),
                ("raw/node-feat.csv.gz", "1,2\n3,nan\n5,6\n7,8\n", ":2: expected a finite number, got 'nan'"),
                ("raw/node-feat.csv.gz", "1,2\n3,4\n5,6\n-inf,8\n", ":4: expected a finite number, got '-inf,8'"),
                ("raw/node-feat.csv.gz", "1,2\n3,4e38\n", ":2: expected a finite number, got '4e38'"),
                ("raw/node-feat.csv.gz", "", ": is empty; expected lines of numbers"),
                ("raw/node-label.csv.gz", "0\n2\n1\n", ": has 3 labels for 4 nodes" + lines_of_features),
                ("raw/node-label.csv.gz", "0\n3\n1\n0\n", ":2: the label of node 1 is 3, outside of the 3 classes of the model (model.classes)"),
                ("raw/node-label.csv.gz", "0\n-1\n1\n0\n", ":2: the label of node 1 is -1, outside of the 3 classes of the model (model.classes)"),
                ("raw/node-label.csv.gz", "0\n2,1\n1\n0\n", ":2: expected 1 number, got 2"),
                ("split/time/train.csv.gz", "0\n4\n", ":2: node 4 is not there; there are 4 nodes"),
                ("split/time/train.csv.gz", "", ": is empty; expected at least one node"),
                ("split/time/train.csv.gz", "2\n0\n2\n", ":3: node 2 is there already, at %s:1" % self.path("split/time/train.csv.gz")),
                ("split/time/valid.csv.gz", "1\n2\n", ":2: node 2 is there already, at %s:1" % self.path("split/time/train.csv.gz"))):
            with self.subTest(message):
                self.write({name: text})
                result = self.ogb()
                self.assertEqual((result.returncode, result.stderr), (3, self.path(name) + message + "\n"))

    def test_sparse_features(self):
        expected = [[0, 1, 1, 3, 4], [1, 0, 1, 2], [0.5, 0.25, -2, 8]]
        for entries, values in (("0,1,0.5\n3,2,8\n2,1,-2\n2,0,0.25\n", expected[2]), ("0 1\r\n3\t2\r\n2;1\r\n 2, 0", [1, 1, 1, 1])):
            for compress in (gzip.open, open):
                self.write({"raw/node-feat.csv.gz": entries}, compress=compress)
                result = self.plain("split/time/test.csv.gz", sparse_columns="3")
                self.assertEqual(result.returncode, 0, result.stderr)
                found = json.loads(result.stdout)
                self.assertEqual((found["sparse"], found["dense"]), ([*expected[:2], values], None))
                for name in ("nodes", "offsets", "neighbors", "labels", "train", "validation", "test"):
                    self.assertEqual(found[name], GRAPH[name], name)

    def test_wrong_sparse_features_are_named(self):
        features, labels = self.path("raw/node-feat.csv.gz"), self.path("raw/node-label.csv.gz")
        for text, message in (
                ("0,1,1\n4,0,1\n", ":2: node 4 is not there; there are 4 nodes, the lines of " + labels),
                ("-1,0\n", ":1: node -1 is not there; there are 4 nodes, the lines of " + labels),
                ("0,1,1\n1,3,1\n", ":2: feature 3 is not there; expected 0 to 2, below model.features"),
                ("0,-1,1\n", ":1: feature -1 is not there; expected 0 to 2, below model.features"),
                ("0,1\n2,1\n1,1\n2,1\n", ":4: feature 1 of node 2 is there already, at " + features + ":2"),
                ("0,1,1\n1,2\n", ":2: expected 3 numbers, got 2"), ("0,1\n1,2,1\n", ":2: expected 2 numbers, got 3"),
                ("0\n", ":1: expected 2 or 3 numbers, got 1"), ("0,1,2,3,4\n", ":1: expected 2 or 3 numbers, got 5"),
                ("0,1,1\n\n", ":2: expected 3 numbers, got 0"), ("\n", ":1: expected 2 or 3 numbers, got 0"),
                ("0,1,1\n0.5,1,1\n", ":2: expected an integer, got '0.5,1,1'"), ("0,1,1\n1,1,nan\n", ":2: expected a finite number, got 'nan'"),
                ("0,1,1\n1,99999999999999999999,1\n", ":2: expected an integer, got '99999999999999999999,1'"), ("", ": is empty; expected lines of numbers")):
            with self.subTest(message):
                self.write({"raw/node-feat.csv.gz": text})
                result = self.plain("split/time/test.csv.gz", sparse_columns="3")
                self.assertEqual((result.returncode, result.stderr), (3, features + message + "\n"))
        self.write({"raw/node-feat.csv.gz": "0,1\n", "raw/edge.csv.gz": "1,0\n2,4\n"})
        self.assertEqual(self.plain(sparse_columns="3").stderr, self.path("raw/edge.csv.gz") + ":2: node 4 is not there; there are 4 nodes, the lines of " + labels + "\n")

    def test_many_graphs(self):
        self.write(files=GRAPHS)
        result = self.run_program("ogbs", self.folder, "")
        self.assertEqual(result.returncode, 0, result.stderr)
        found = json.loads(result.stdout)
        for name, value in {"nodes": 6, "features": 1, "first_nodes": [0, 2, 3, 6], "offsets": [0, 0, 1, 1, 2, 2, 3], "neighbors": [0, 5, 4],
                            "dense": [1, 2, 3, 4, 5, 6], "labels": [2, 0, 1], "train": [2], "validation": [0], "test": [1]}.items():
            self.assertEqual(found[name], value, name)
        self.assertEqual(json.loads(self.run_program("ogbs", self.folder, "", direction="undirected").stdout)["neighbors"], [1, 0, 5, 5, 3, 4])
        for name, text, message in (
                ("raw/edge.csv.gz", "0,1\n2,0\n1,3\n1,2\n", ":3: node 3 is not there; in graph 2 there are 3 nodes"),
                ("raw/edge.csv.gz", "0,2\n2,0\n1,2\n1,2\n", ":1: node 2 is not there; in graph 0 there are 2 nodes"),
                ("raw/num-edge-list.csv.gz", "1\n0\n4\n", ":3: graph 2 has 4 edges; expected 0 to 3, of 4 that are there"),
                ("raw/num-edge-list.csv.gz", "1\n0\n2\n", ": says that there are 3 edges, and 4 are there"),
                ("raw/num-edge-list.csv.gz", "1\n3\n", ": has the counts of 2 graphs, and %s of 3" % self.path("raw/num-node-list.csv.gz")),
                ("raw/num-node-list.csv.gz", "2\n0\n4\n", ":2: graph 1 has 0 nodes; expected 1 to 4, of 6 that are there"),
                ("raw/num-node-list.csv.gz", "2\n9223372036854775807\n4\n", ":2: graph 1 has 9223372036854775807 nodes; expected 1 to 4, of 6 that are there"),
                ("raw/graph-label.csv.gz", "2\n0\n", ": has 2 labels for 3 graphs"),
                ("raw/graph-label.csv.gz", "2\n0\n3\n", ":3: the label of graph 2 is 3, outside of the 3 classes of the model (model.classes)"),
                ("raw/graph-label.csv.gz", "2\nnan\n1\n", ":2: expected an integer, got 'nan'"),
                ("split/time/train.csv.gz", "3\n", ":1: graph 3 is not there; there are 3 graphs"),
                ("split/time/train.csv.gz", "", ": is empty; expected at least one graph"),
                ("split/time/test.csv.gz", "1\n0\n", ":2: graph 0 is there already, at %s:1" % self.path("split/time/valid.csv.gz"))):
            with self.subTest(message):
                self.write({name: text}, files=GRAPHS)
                result = self.run_program("ogbs", self.folder, "")
                self.assertEqual((result.returncode, result.stderr), (3, self.path(name) + message + "\n"))
        self.write({"raw/node-label.csv.gz": "0\n" * 6}, files=GRAPHS)
        self.assertEqual(self.ogb().stderr, f"{self.folder}: has 3 graphs; expected one, whose nodes are classified (data.type: ogb_graphs is for many)\n")

    def test_splits_and_missing_files(self):
        self.write({"split/random/train.csv.gz": "0\n"})
        self.assertEqual(self.ogb().stderr, f"{self.folder}/split: has several splits (random, time); data.split says which one to take\n")
        self.assertEqual(self.ogb("time").returncode, 0)
        self.assertIn("split/random/valid.csv.gz: is not there", self.ogb("random").stderr)
        shutil.rmtree(self.folder + "/split/random")
        os.symlink("loop", self.folder + "/split/loop")
        self.assertEqual(self.ogb().returncode, 0)
        shutil.rmtree(self.folder + "/split")
        self.assertEqual(self.ogb().stderr, f"{self.folder}/split: cannot be listed: No such file or directory; expected the splits of a data set of OGB\n")
        os.mkdir(self.folder + "/split")
        self.assertIn("split: has no folder of a split", self.ogb().stderr)

    def test_damaged_and_exploding_files(self):
        self.write()
        with open(self.path("raw/edge.csv.gz"), "r+b") as file:
            file.truncate(15)
        self.assertIn("edge.csv.gz: is damaged or was truncated", self.ogb().stderr)
        self.write()
        for megabytes, members, message in ((60, 2, r": expands to \d+ bytes or more, more than 67108864 .*: a compression bomb; if"),
                                            (66, 19, ":1: is longer than 67108864 bytes; expected numbers")):
            member = gzip.compress(b" " * (megabytes << 20) + b"1,2\n", compresslevel=1)
            with open(self.path("raw/node-feat.csv.gz"), "wb") as file:
                file.write(member * members)
            result = self.ogb()
            self.assertEqual(result.returncode, 3)
            self.assertRegex(result.stderr, "node-feat.csv.gz" + message)
        # 20 MB of text are 80 MB of int64.
        self.write({"raw/node-label.csv.gz": "0\n" * 10_000_000})
        result = self.ogb()
        self.assertEqual(result.returncode, 3)
        self.assertRegex(result.stderr, "node-label.csv.gz:8388609: the numbers up to here take more than 67108864 .*: a compression bomb; if")
        # 16 MB of text are 80 MB of entries, 20 bytes each.
        self.write({"raw/node-feat.csv.gz": "0,1\n" * 4_000_000})
        result = self.plain(sparse_columns="3")
        self.assertEqual(result.returncode, 3)
        self.assertRegex(result.stderr, "node-feat.csv.gz:3355444: the numbers up to here take more than 67108864 .*: a compression bomb; if")


if __name__ == "__main__":
    unittest.main()
