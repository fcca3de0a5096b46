# SPDX-License-Identifier: MIT
"""Checks that a run which this machine cannot execute is refused before anything is written."""

import os
import struct
import unittest

from training_runs import TrainingRuns

# 400 TB of embedding are more than any process can address.
HUGE = "model={type: transformer, family: gpt2, layers: 1, width: 1000000, heads: 1, sequence: 12, vocabulary: 100000000}"


class RefusedStartTest(TrainingRuns):
    def refused(self, run, code, *overrides, ranks=1, fault=None):
        self.train(run, *overrides, ranks=ranks, expect=code, device="cpu", fault=fault)
        return self.errors

    def test_levels_that_are_not_there(self):
        for ranks in (1, 2):
            errors = self.refused("level", 2, "kernels.default=triton", ranks=ranks)
            self.assertIn("override 'kernels.default=triton': kernels.default: cross_entropy has no kernel at level triton on cpu", errors)
            self.assertFalse(os.path.exists(self.path("level")))

    def test_faults_of_gpus_on_cpus(self):
        for fault in ("endless_kernel", "illegal_address", "endless_inside"):
            self.train(fault, "fault={at: step 1 rank 0, kind: %s}" % fault, environment={"STRATA_FAULTS": "1"}, device="cpu", ranks=1, expect=2)
            self.assertIn("fault.kind: %s is a fault of GPUs, and this run is on CPUs" % fault, self.errors)

    def test_memory_that_no_host_has(self):
        errors = self.refused("huge", 6, HUGE, fault="memory that no host has")
        self.assertIn("the host has no memory left: you tried to allocate ", errors)
        self.assertIn("a smaller micro_batch and more ranks need less", errors)
        self.assertEqual(self.error("huge")["code"], 6)

    @unittest.skipIf("STRATA_TEST_SLOWDOWN" in os.environ, "programs for a sanitizer reserve terabytes of addresses")
    def test_memory_beyond_a_limit_of_the_address_space(self):
        # Programs and libraries take half of 5 GiB. The logits of 16 sequences take 7.7 GB, the weights 80 MB.
        large = "model={type: transformer, family: gpt2, layers: 1, width: 2, heads: 1, sequence: 12, vocabulary: 10000000}"
        for ranks in (1, 2):
            run = "on-%d" % ranks
            self.train(run, large, "micro_batch=16", "evaluation.every=0", ranks=ranks, batch=16 * ranks, device="cpu",
                       under=["sh", "-c", 'ulimit -v %d; exec "$0" "$@"' % (5 << 20)], expect=6, fault="limit of the address space")
            self.assertIn("the host has no memory left: you tried to allocate ", self.errors)
            self.assertEqual((self.error(run)["code"], self.error(run)["step"]), (6, 1))

    def test_memory_that_torchscript_asks_for(self):
        sequence = 1 << 22  # the scores of 2 heads take 141 TB, all addresses of a process
        for part in ("train", "validation"):
            with open("%s/%s.bin" % (self.data, part), "wb") as file:
                file.write(struct.pack("<256i", 20240520, 1, sequence + 1, *[0] * 253) + bytes(2 * (sequence + 1)))
        model = "model={type: transformer, family: gpt2, layers: 1, width: 2, heads: 2, sequence: %d, vocabulary: 37}" % sequence
        self.train("scores", model, "kernels.default=torchscript", "micro_batch=1", "evaluation.tokens=0", ranks=1, batch=1, expect=6, device="cpu",
                   fault="memory that torchscript asks for")
        self.assertIn("the host has no memory left: you tried to allocate ", self.errors)

    def test_features_of_text_files_that_do_not_fit(self):
        contents = {"edges": "0,1\n1,2\n", "features": "1,2\n3,4\n5,6\n7,8\n", "labels": "0\n1\n0\n1\n", "train_nodes": "0\n1\n", "validation_nodes": "2\n3\n"}
        for name, text in contents.items():
            with open(self.data + "/" + name, "w", encoding="utf-8") as file:
                file.write(text)
        data = "data={type: text_graph, partition: contiguous, %s}" % ", ".join("%s: %s/%s" % (name, self.data, name) for name in contents)
        model = "model={type: graph_network, convolution: sage, projection: %s, features: %d, layers: 2, width: 8, classes: 2}"
        for projection, features, reason in (("none", 3, ": nodes have 2 features, and model.features asks for 3"),
                                             ("sparse", 2, ":1: feature 2 is not there; expected 0 to 1, below model.features")):
            errors = self.refused(projection, 3, model % (projection, features), data, "batch=1", "micro_batch=1", "evaluation.tokens=0", ranks=1)
            self.assertIn(self.data + "/features" + reason, errors)
        errors = self.refused("ogb", 3, (model % ("sparse", 6)).replace("}", ", pooling: sum}"), "data={type: ogb_graphs, folder: %s/graphs}" % self.data, "evaluation.tokens=0",
                              ranks=1)
        self.assertIn("features are dense, and model.projection is sparse; expected none or dense (those of OGB's data sets are always dense)", errors)


if __name__ == "__main__":
    unittest.main()
