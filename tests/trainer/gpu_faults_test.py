# SPDX-License-Identifier: MIT
"""Faults of GPUs: a kernel that never ends, one that writes to an invalid address, a rank that does not start NCCL or starts a
collective too many, too little memory for an evaluation. Each ends the run on all ranks with its exit code, and is reported once."""

import os
import re
import subprocess
import time
import unittest

from training_runs import DEVICE, MOST_RANKS, TrainingRuns

RANKS = MOST_RANKS
LAST = RANKS - 1  # the rank whose GPU fails
BATCH = 8 * RANKS  # one micro-batch per rank
FAULTS = {"STRATA_FAULTS": "1"}
ABSENT_RANK = os.environ.get("STRATA_TEST_ABSENT_RANK_LIBRARY") or os.path.abspath("tests/trainer/faults/libabsent_rank.so")
# Two steps of one layer have fewer kernels than the driver queues, so the host does not wait to queue more.
LONG = ["steps=1000", "schedule={type: constant}", "evaluation.every=0", "model.layers=1"]
TIMEOUT = 8  # NCCL connects the ranks within this time


@unittest.skipUnless(DEVICE == "cuda", "needs STRATA_TEST_DEVICE=cuda and GPUs")
class GpuFaultsTest(TrainingRuns):
    def fail_in_a_step(self, run, fault, step, seconds, *overrides):
        """Trains until the GPU of the last rank fails in this step. Returns what the run printed, which must end with exit
        code 7 in time."""
        process = self.start(run, *LONG, *overrides, "run.timeout=%d" % TIMEOUT, "fault={at: step %d rank %d, kind: %s}" % (step, LAST, fault),
                             ranks=RANKS, batch=BATCH, environment=FAULTS)
        if step > 1:  # the results of a step are read when the next one is queued
            self.wait_for(process, run, lambda: len(self.losses(run)) >= step - 2)
        begin = time.monotonic()
        output = "".join(process.communicate(timeout=100))
        self.assertEqual(process.returncode, 7, output)
        self.assertLess(time.monotonic() - begin, seconds, output)
        self.assertEqual(self.error(run)["code"], 7, output)
        for words in ("SIGABRT", "terminate called", "core dumped"):
            self.assertNotIn(words, output)
        return output

    def endless_kernel(self, graph):
        run = "endless-" + graph
        self.fail_in_a_step(run, "endless_kernel", 6, 2 * TIMEOUT, "cuda_graph=" + graph)
        report = self.error(run)
        if RANKS == 1 and graph == "off":
            self.assertEqual(report["rank"], 0)
            self.assertIn("the training loop of this rank gave no sign of life", report["message"])
        else:
            wait = "the captured step" if graph == "on" else r"(all )?ranks .*collective \d+, \w+ of .*"
            self.assertRegex(report["message"], "^%s did not end within .* s: on the GPU of rank %d work that was queued before does not end$" % (wait, LAST))
        self.assertIn(report["step"], (6, 7))  # the host is at most a step ahead

    def test_an_endless_kernel_is_named(self):
        self.endless_kernel("off")

    def test_an_endless_kernel_before_a_captured_step_is_named(self):
        self.endless_kernel("on")

    def endless_kernel_inside(self, graph):
        run = "inside-" + graph
        self.fail_in_a_step(run, "endless_inside", 6, 2 * TIMEOUT, "cuda_graph=" + graph)
        report = self.error(run)
        if graph == "on":
            what = "no other rank could be asked: what this rank has begun" if RANKS == 1 else "all ranks have begun it: a kernel or the transport"
            self.assertRegex(report["message"], "^the captured step did not end within .* s: %s hangs$" % what)
        elif RANKS == 1:
            self.assertIn("the training loop of this rank gave no sign of life", report["message"])
        else:
            self.assertRegex(report["message"], r"collective \d+, .* did not end within .* s: on the GPU of rank %d work" % LAST)
        self.assertIn(report["step"], (6, 7))

    def test_an_endless_kernel_inside_a_step_is_reported(self):
        self.endless_kernel_inside("off")

    def test_an_endless_kernel_inside_a_captured_step_is_reported(self):
        self.endless_kernel_inside("on")

    @unittest.skipIf(RANKS > 1, "the same on several ranks")
    def test_an_endless_kernel_in_the_first_step_is_reported(self):
        self.fail_in_a_step("first", "endless_kernel", 1, 100, "cuda_graph=off")
        self.assertEqual(self.error("first")["step"], 1)
        self.assertRegex(self.error("first")["message"], "gave no sign of life for|did not end within")

    def illegal_address(self, graph):
        run = "illegal-" + graph
        output = self.fail_in_a_step(run, "illegal_address", 6, 10, "cuda_graph=" + graph)
        report = self.error(run)
        self.assertEqual(report["rank"], LAST)
        self.assertIn(report["step"], (6, 7))
        self.assertNotEqual(report["phase"], "")
        self.assertIn("the GPU reports an error: an illegal memory access was encountered", report["message"])
        said = re.findall(r"(?m)^(?:strata: )?rank (\d+), step \d+, .*$", output)
        self.assertEqual(said, [str(LAST)], output)

    def test_an_illegal_address_is_reported_once(self):
        self.illegal_address("off")

    def test_an_illegal_address_before_a_captured_step_is_reported_once(self):
        self.illegal_address("on")

    @unittest.skipIf(RANKS > 1, "the same on several ranks")
    def test_an_illegal_address_at_the_capture_is_no_error_of_the_configuration(self):
        self.fail_in_a_step("capture", "illegal_address", 4, 10, "cuda_graph=on")
        self.assertEqual((self.error("capture")["rank"], self.error("capture")["step"]), (LAST, 4))

    @unittest.skipIf(RANKS == 1, "one rank has no other")
    def test_a_rank_that_does_not_come_to_the_start_of_nccl_is_named(self):
        under = ["env", "LD_PRELOAD=" + ABSENT_RANK, "STRATA_TEST_ABSENT_RANK=%d" % LAST]
        self.train("absent", *LONG, "run.timeout=%d" % TIMEOUT, ranks=RANKS, batch=BATCH, under=under, expect=7)
        report = self.error("absent")
        self.assertEqual((report["code"], report["step"]), (7, 0))
        self.assertRegex(report["message"], r"^all ranks: the start of NCCL did not end within .* s: rank %d did not answer" % LAST)

    @unittest.skipIf(RANKS == 1, "one rank has no other")
    def test_a_collective_too_many_after_the_first_step_is_named(self):
        self.fail_in_a_step("extra", "extra_collective", 6, 2 * TIMEOUT)
        report = self.error("extra")
        self.assertIn("all_reduce of fault (1 float32)", report["message"])
        self.assertGreaterEqual(report["step"], 6)

    def test_memory_for_evaluations_that_is_not_there_beside_a_captured_step_is_found_at_its_capture(self):
        # The logits of 24576 tokens are what most of the memory is for, in training and in the evaluation.
        large = ["model.vocabulary=8192", "micro_batch=2048", "steps=8", "evaluation.every=0", "checkpoint.every=0", "kernels.default=aten"]
        options = {"ranks": RANKS, "batch": 2048 * RANKS}
        self.train("enough", "cuda_graph=on", *large, **options)
        evaluation, most = (int(re.search(r"(?m)^  %s +([\d,]+) " % name, self.output)[1].replace(",", ""))
                            for name in ("evaluations, beside the captured step", "most at once"))
        self.assertGreater(evaluation, 200 << 20)
        query = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
        of_gpu = int(subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0]) << 20
        # Both fit one after the other, and less than half of the evaluation fits beside the captured step.
        scarce = {"PYTORCH_CUDA_ALLOC_CONF": "per_process_memory_fraction:%.6f" % ((most + 0.4 * evaluation) / of_gpu)}
        self.train("eager", "cuda_graph=off", *large, environment=scarce, **options)
        self.assertEqual([line["step"] for line in self.lines("eager") if "validation_loss" in line], [8])
        self.train("scarce", "cuda_graph=on", *large, environment=scarce, expect=6, **options)
        report = self.error("scarce")
        self.assertEqual((report["code"], report["step"]), (6, 4))
        for words in ("the memory of the GPU does not suffice", "master weights", "activations and what ops need besides", "micro_batch=1024"):
            self.assertIn(words, report["message"])


if __name__ == "__main__":
    unittest.main()
