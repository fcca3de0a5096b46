# SPDX-License-Identifier: MIT
"""Runs the train program on files of data in other forms, and on files that change while they are in use."""

import os
import unittest

import numpy

from training_runs import TrainingRuns, write_tokens

GRAPH_MODEL = ["model={type: graph_network, convolution: sage, projection: sparse, features: 30, layers: 2, width: 24, classes: 4, norm: true, dropout: 0.1}",
               "evaluation.tokens=0", "steps=10", "micro_batch=1"]
STEPS = 400
LONG = ["schedule={type: constant}", "checkpoint.every=100", "evaluation.every=100"]


def matrix_of(arrays, name):
    """Returns the sparse matrix of an .npz graph as a dense one."""
    matrix = numpy.zeros(arrays[name + "_shape"])
    for row in range(len(matrix)):
        entries = slice(*arrays[name + "_indptr"][row:row + 2])
        matrix[row, arrays[name + "_indices"][entries]] = arrays[name + "_data"][entries]
    return matrix


class GraphFilesTest(TrainingRuns):
    def test_sparse_features_in_text_train_as_those_in_npz(self):
        arrays = dict(numpy.load(self.data + "/graph.npz"))
        for name in ("labels", "train", "validation", "test"):
            numpy.savetxt(self.data + "/" + name, arrays[name], "%d")
        numpy.savetxt(self.data + "/edges", numpy.argwhere(matrix_of(arrays, "adj")), "%d")
        path, x = self.data + "/features.gz", matrix_of(arrays, "attr")
        node, feature = numpy.nonzero(x)
        numpy.savetxt(path, numpy.column_stack([node, feature, x[node, feature]]), "%d %d %.9g")
        masks = {name: numpy.isin(numpy.arange(len(x)), arrays[name]) for name in ("train", "validation", "test")}
        numpy.savez(self.data + "/masks.npz", **{**arrays, **masks})
        text = "edges: {0}/edges, features: {0}/features.gz, labels: {0}/labels, train_nodes: {0}/train, validation_nodes: {0}/validation, test_nodes: {0}/test"
        for run, data in (("npz", "type: graph, file: {0}/graph.npz"), ("masks", "type: graph, file: {0}/masks.npz"), ("text", "type: text_graph, " + text)):
            self.train(run, *GRAPH_MODEL, "data={partition: contiguous, %s}" % data.format(self.data), batch=1, device="cpu")
            self.assertEqual(len(self.losses(run)), 10)
            self.assertEqual((self.losses(run), self.hashes(run)), (self.losses("npz"), self.hashes("npz")), run)


class ChangedFilesTest(TrainingRuns):
    """A token file is open from the start of a run to its end, and its content counts as that of the start."""

    def other_tokens(self, path, count):
        write_tokens(path, [(i * 5 + 3) % 37 for i in range(count)])

    def train_while(self, run, change):
        process = self.start(run, "steps=%d" % STEPS, *LONG, device="cpu")
        self.wait_for_a_step(process, run)
        change()
        self.assertLess(len(self.losses(run)), STEPS // 2, "the run was too fast for this test")
        output, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, output + errors)
        self.assertEqual(len(self.losses(run)), STEPS)
        # The next start does not take the new text for the old one.
        self.train(run, "steps=%d" % (STEPS + 10), *LONG, expect=2, device="cpu")
        self.assertRegex(self.errors, r"was made by another configuration:\n  the data: was [0-9a-f]{16}, now [0-9a-f]{16}\n")
        self.assertEqual(len(self.losses(run)), STEPS)

    def test_files_that_are_replaced_are_read_on(self):
        self.train("whole", "steps=%d" % STEPS, *LONG, device="cpu")

        def replace():
            for name, count in (("train.bin", 6000), ("validation.bin", 500)):
                self.other_tokens(self.data + "/new", count)
                os.replace(self.data + "/new", self.data + "/" + name)

        self.train_while("replaced", replace)
        evaluations = [[line["validation_loss"] for line in self.lines(run) if "validation_loss" in line] for run in ("whole", "replaced")]
        self.assertEqual(len(evaluations[0]), 4)
        self.assertEqual(evaluations[0], evaluations[1])
        self.assertEqual((self.losses("replaced"), self.hashes("replaced")), (self.losses("whole"), self.hashes("whole")))

    def test_a_file_that_is_rewritten_in_place_is_noticed_by_the_next_start(self):
        def rewrite():
            with open(self.data + "/train.bin", "rb") as file:
                size = len(file.read())
            self.other_tokens(self.data + "/new", 6000)
            with open(self.data + "/new", "rb") as new, open(self.data + "/train.bin", "r+b") as file:
                file.write(new.read())
            self.assertEqual(os.path.getsize(self.data + "/train.bin"), size)

        self.train_while("rewritten", rewrite)


if __name__ == "__main__":
    unittest.main()
