# SPDX-License-Identifier: MIT
"""The performance gate: what a step does is counted and compared with numbers.json, where each number has a reason.

After a change that moves numbers on purpose, in the checkout:

    bazel build //tests/trainer/gate:performance_gate_test
    .venv/bin/python -B tests/trainer/gate/performance_gate_test.py --write "why they are what they are now"
"""
import argparse
import contextlib
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
if not os.path.exists("tools/bench/bench_step"):
    os.chdir("bazel-bin")  # by hand in the checkout
import kept_numbers  # noqa: E402
import measures  # noqa: E402

# The libraries then use what processors of other kinds have. See tools/bazel/instruction_set_tests.bzl.
PROCESSORS = {"sse": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
              "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}}  # fmt: skip


def ready(test_case, add_cleanup):
    """Returns a test case that is used outside of a test. What `add_cleanup` gets removes its folder."""
    add_cleanup(test_case.doCleanups)
    test_case.setUp()
    add_cleanup(test_case.tearDown)
    return test_case


class GateTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kept = kept_numbers.read()

    def complaints(self, found):
        return [sentence for name, numbers in found.items() for sentence in kept_numbers.differences(name, numbers, self.kept.get(name))]

    def expect_kept(self, found):
        if complaints := self.complaints(found):
            self.fail("\n".join(["numbers differ from those in the tree", *complaints]))


class StepsTest(GateTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.steps = ready(measures.CountedSteps(), cls.addClassCleanup)

    def count(self, *case, **options):
        return {measures.name_of(*case[:4]): self.steps.counts(*case, **options)}

    def test_a_step_does_what_it_did(self):
        self.expect_kept(self.steps.counts_of_cases())

    def test_a_number_is_that_of_each_run_and_each_processor(self):
        for family, processor in (("gpt2", "sse"), ("llama", "avx2"), ("vision", "sse"), ("graph", "avx2")):
            self.expect_kept(self.count(family, "aten", "none", 1, environment=PROCESSORS[processor]))
        self.expect_kept(self.count("llama", "aten", "none", 2))

    def test_a_step_that_does_more_or_less_is_noticed(self):
        case = ("llama", "aten", "none", 2)
        for override, words in {"batch=8": "operators is .* find the cause",  # four more micro-batches
                                "sharding.reshard_after_forward=false": "all_gather.calls is .* better than the number in the tree: write it there",
                                "sharding.strategy=none": "all_reduce.bytes is .* find the cause",
                                "model.norm_epsilon=1e-4": None,  # computes other values by the same operators
                                "model.feed_forward=49": "allocated_bytes is .* find the cause"}.items():
            with self.subTest(override):
                complaints = "\n".join(self.complaints(self.count(*case, override)))
                if words is None:
                    self.assertEqual(complaints, "")
                else:
                    self.assertRegex(complaints, words)

    def test_cases_differ(self):
        """So a step at another level, or with another gradient checkpointing, is noticed."""
        numbers = [tuple(kept_numbers.numbers_of(self.kept[measures.name_of(*case)]).items()) for case in measures.CASES]
        self.assertEqual(len(set(numbers)), len(numbers))


class TrainingTest(GateTest):
    def test_a_loss_is_reached_after_as_many_steps(self):
        training = ready(measures.CountedTraining(), self.addCleanup)
        for environment in ({}, *PROCESSORS.values()):
            self.expect_kept({measures.TRAINING: training.steps_until_loss(environment=environment)})
        slower = {measures.TRAINING: training.steps_until_loss("optimizer.learning_rate=8e-3")}
        self.assertRegex(self.complaints(slower)[0], "steps is .* find the cause")


@unittest.skipIf(measures.why_no_instructions(), measures.why_no_instructions())
class InstructionsTest(GateTest):
    def test_programs_take_as_many_instructions(self):
        counted = ready(measures.CountedInstructions(), self.addCleanup)
        self.expect_kept(counted.instructions_of_all())


class NumbersTest(unittest.TestCase):
    ENTRIES = {"a step": {"reason": "It has two layers.", "operators": 100, "all_gather.calls": 2},
               "a training": {"reason": "It learns slowly.", "steps": 100}}  # fmt: skip

    def test_each_number_in_the_tree_is_measured_and_has_a_reason(self):
        self.assertEqual(list(kept_numbers.read()), measures.NAMES)
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/numbers.json"
            kept_numbers.write(self.ENTRIES, path)
            self.assertEqual(kept_numbers.read(path), self.ENTRIES)
            for reason in ("", "none", "It changed."):
                with self.assertRaisesRegex(ValueError, "'a step' has no reason"):
                    kept_numbers.write({"a step": {"reason": reason, "operators": 1}}, path)
                self.assertEqual(kept_numbers.read(path), self.ENTRIES)
            with open(path, "w", encoding="utf-8") as file:
                file.write('{"a step": {"operators": 1}}')
            with self.assertRaisesRegex(ValueError, "'a step' has no reason"):
                kept_numbers.read(path)

    def test_more_and_less_are_differences(self):
        def words(name, **found):
            return list(kept_numbers.differences(name, found, self.ENTRIES.get(name)))

        same = {"operators": 100, "all_gather.calls": 2}
        self.assertEqual(words("a step", **same), [])
        self.assertEqual(words("a step", **{**same, "operators": 99}),
                         ["a step: operators is 99, and 100 in the tree: better than the number in the tree: write it there"])  # fmt: skip
        self.assertRegex(words("a step", **{**same, "operators": 101})[0], "is 101, and 100 in the tree: find the cause")
        self.assertRegex(words("a step", operators=100)[0], "all_gather.calls is 0, and 2 in the tree")
        self.assertRegex(words("a step", **same, allocations=7)[0], "allocations is 7, and 0 in the tree")
        self.assertRegex(words("another step", operators=3)[0], "operators is 3, and 0 in the tree")
        self.assertEqual([len(words("a training", steps=steps)) for steps in (94, 95, 105, 106)], [1, 0, 0, 1])

    def test_only_what_differs_is_written(self):
        found = {"a step": {"operators": 90, "all_gather.calls": 2}, "a training": {"steps": 104}, "a start": {"instructions": 7}}
        new = kept_numbers.with_new_numbers(self.ENTRIES, found, list(found), "The layers are fused.")
        self.assertEqual(new, {"a step": {"reason": "The layers are fused.", "operators": 90, "all_gather.calls": 2},
                               "a training": self.ENTRIES["a training"],
                               "a start": {"reason": "The layers are fused.", "instructions": 7}})  # fmt: skip
        self.assertEqual(list(kept_numbers.with_new_numbers(self.ENTRIES, {}, ["a step"], "It is not measured.")), ["a step"])


def main():
    parser = argparse.ArgumentParser(description="Measures all and writes the numbers that differ into numbers.json.")
    parser.add_argument("--write", metavar="REASON", required=True, help="one sentence: why the numbers are what they are now")
    reason = parser.parse_args().write
    kept_numbers.check_reason(reason, "--write")  # before minutes of measuring
    with contextlib.ExitStack() as stack:
        found = ready(measures.CountedSteps(), stack.callback).counts_of_cases()
        found[measures.TRAINING] = ready(measures.CountedTraining(), stack.callback).steps_until_loss()
        if why := measures.why_no_instructions():
            print("instructions stay as they are: " + why)
        else:
            found.update(ready(measures.CountedInstructions(), stack.callback).instructions_of_all())
    kept = kept_numbers.read() if os.path.exists(kept_numbers.PATH) else {}
    for name, numbers in found.items():
        for difference in kept_numbers.differences(name, numbers, kept.get(name)):
            print(difference)
    kept_numbers.write(kept_numbers.with_new_numbers(kept, found, measures.NAMES, reason))


if __name__ == "__main__":
    main()
