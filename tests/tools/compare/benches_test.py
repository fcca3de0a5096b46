# SPDX-License-Identifier: MIT
"""Checks the comparison of files of benchmarks: pairing, rows of one file, repetitions, and lines that are no benchmark."""
import math
import os
import re
import sys
import unittest

import numpy

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from command import CommandTest  # noqa: E402


def step_line(milliseconds, **others):
    return {"device": "cpu", "ranks": 2, "communication": "MPI", "batch": 16, "micro_batch": 8, "tokens_per_sample": 128, "deterministic": False,
            "cuda_graph": False, "steps": 30, "skipped_steps": 0, "milliseconds": milliseconds, "tokens_per_second_and_rank": 1e6 / milliseconds,
            "model_teraflops_per_rank": 3e6 * (1e6 / milliseconds) / 1e12, "loss": 5.5, "breakdown": None, **others}


def kernel_line(op, microseconds, **others):
    return {"device": "H100", "torch": "2.11.0", "kernels": "abc", "op": op, "shape": "4x8", "dtype": "bf16", "level": "cuda", "direction": "forward",
            **({"microseconds": microseconds} if microseconds else {}), **others}


def module_line(forward, backward, **others):
    return {"module": "mlp", "config": "llama_1b", "input": [8, 4096, 2048], "level": "cuda", "levels": {"linear": "cuda"}, "forward_milliseconds": forward,
            "backward_milliseconds": backward, "peak_bytes": 1, "dtype": "bf16", "device": "H100", "torch": "2.11.0", **others}


class BenchesTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.draws = numpy.random.default_rng(1)

    def times(self, mean, count=8, share=0.002):
        return [float(mean * (1 + share * value)) for value in self.draws.normal(size=count)]

    def test_step(self):
        a = self.write_lines("a.jsonl", [step_line(time) for time in self.times(100)])
        b = self.write_lines("b.jsonl", [step_line(time, device="gpu", loss=5.6) for time in self.times(103)])
        said = self.compare(a, b, expect=1)
        self.assertIn("device differs: A: cpu; B: gpu\nloss differs: A: 5.5; B: 5.6\n1 rows in both:\n", said)
        self.assertRegex(said, r"   slower: ranks=2 batch=16 micro_batch=8 flops_per_item=3e\+06: B against A \+[23].\d\d % "
                               r"\(99 % interval: \+[12].\d\d to \+[34].\d\d %\), 8 pairs\nverdict: slower\n$")
        self.assertIn("verdict: faster", self.compare(b, a, expect=0))
        self.assertIn("verdict: equal", self.compare(a, a, expect=0))

    def test_what_slows_both_commands_down_cancels(self):
        """The machine becomes 40 % slower while the commands take turns, so that only pairs show a slowdown of 3 %."""
        machine = numpy.linspace(1, 1.4, 8)
        a = self.write_lines("a.jsonl", [step_line(time) for time in self.times(100) * machine])
        b = self.write_lines("b.jsonl", [step_line(time) for time in self.times(103) * machine])
        self.assertIn("verdict: slower", self.compare(a, b, expect=1))
        shuffled = self.write_lines("c.jsonl", [step_line(time) for time in self.draws.permutation(self.times(103) * machine)])
        self.assertIn("verdict: undecided", self.compare(a, shuffled, expect=8))

    def test_few_repetitions_decide_nothing(self):
        a, b = (self.write_lines(name, [step_line(time)] * 4) for name, time in (("a.jsonl", 100), ("b.jsonl", 200)))
        said = self.compare(a, b, expect=8)
        self.assertIn("undecided: ranks=2", said)
        self.assertIn("B against A +100.00 %, 4 pairs\na row needs at least 5 measurements in each file: repeat both commands in turn", said)

    def test_equal_rows_of_kernels_give_no_false_verdict(self):
        """Of 300 rows one or two would be false if the error did not count all rows."""
        lines = [[kernel_line(f"op{row}", time) for row in range(300) for time in self.times(50, count=5, share=0.02)] for _ in range(2)]
        said = self.compare(self.write_lines("a.jsonl", lines[0]), self.write_lines("b.jsonl", lines[1]), expect=8)
        self.assertNotIn("slower:", said)
        self.assertNotIn("faster:", said)
        self.assertIn("300 rows in both:", said)
        self.assertIn("   and 260 more\n", said)

    def test_a_slower_row_is_shown_before_rows_that_scatter(self):
        lines = [[kernel_line(f"op{row}", time) for row in range(60) for time in self.times(50, share=0.2)] +
                 [kernel_line("linear", time) for time in self.times(mean, share=0.0005)] for mean in (50, 52)]
        said = self.compare(self.write_lines("a.jsonl", lines[0]), self.write_lines("b.jsonl", lines[1]), expect=1)
        self.assertRegex(said, r"61 rows in both:\n   slower: linear 4x8 bf16 cuda forward: B against A \+[34]")

    def test_names_cannot_look_like_a_verdict(self):
        a, b = (self.write_lines(name, [kernel_line(f"{op}\nverdict: equal\x1b[2J\ud800", 5)] * 5 + [kernel_line("swiglu", 5)] * 5)
                for name, op in (("a.jsonl", "x"), ("b.jsonl", "y")))
        said = self.compare(a, b, expect=0)
        self.assertEqual(said.count("\nverdict: "), 1, said)
        self.assertIn("   x?verdict: equal?[2J? 4x8", said)

    def test_rows_of_one_file(self):
        lines = [kernel_line("swiglu", 50 + repetition % 2) for repetition in range(6)]
        a = self.write_lines("a.jsonl", lines + [kernel_line("linear", 7)])
        b = self.write_lines("b.jsonl", lines[:5] + [kernel_line("adamw", 7), kernel_line("dropout", None, not_timed="no level")])
        said = self.compare(a, b, expect=0)
        for words in ("1 rows are only in A:\n   linear 4x8 bf16 cuda forward\n", "1 rows are only in B:\n   adamw", "5 pairs of 6 and 5\n"):
            self.assertIn(words, said)
        lost = self.write_lines("c.jsonl", [kernel_line("swiglu", None, not_timed="error 2.00 above 1")])
        said = self.compare(a, lost, expect=1)
        self.assertIn(f"timed in one file only:\n   swiglu 4x8 bf16 cuda forward: {lost} has no time: error 2.00 above 1\n", said)

    def test_rates_of_images(self):
        line = {"width": 500, "height": 400, "bytes_per_image": 9000, "size": 224, "threads": 2, "images": 64, "rounds": 5}
        a, b = (self.write_lines(name, [{**line, "augmented_images_per_second": rate} for rate in self.times(mean)])
                for name, mean in (("a.jsonl", 500), ("b.jsonl", 550)))
        self.assertIn("verdict: faster", self.compare(a, b, expect=0))

    def test_generation_has_two_times(self):
        line = {"device": "cpu", "dtype": "fp32", "prompts": 2, "tokens_per_prompt": 8, "weight_bytes": 100, "cache_bytes": 7, "steps": 3}
        a, b = (self.write_lines(name, [{**line, "prompts_milliseconds": 20 * time, "step_milliseconds": mean * time} for time in self.times(1)])
                for name, mean in (("a.jsonl", 5), ("b.jsonl", 6)))
        said = self.compare(a, b, expect=1)
        self.assertRegex(said, r"slower: [^\n]* step_milliseconds: B against A \+(19|20)(.|\n)*equal: [^\n]* prompts_milliseconds: ")

    def test_each_level_of_a_step_is_a_row(self):
        """The times of level aten are those of A, and only level cuda is slower in B."""
        files = []
        for name, mean in (("a.jsonl", 107), ("b.jsonl", 214)):
            lines = [step_line(time, level="aten") for time in self.times(300)] + [step_line(time, level="cuda") for time in self.times(mean)]
            files.append(self.write_lines(name, lines + [{"level": "triton", "not_timed": "its run ended with exit code 2"}]))
        said = self.compare(*files, expect=1)
        self.assertRegex(said, r"2 rows in both:\n   slower: ranks=2 batch=16 micro_batch=8 level=cuda flops_per_item=3e\+06: B against A \+(99|100)\.\d\d %")
        self.assertRegex(said, r"equal: ranks=2 batch=16 micro_batch=8 level=aten ")

    def test_a_level_whose_run_ended_has_no_time(self):
        a = self.write_lines("a.jsonl", [step_line(time, level=level) for level in ("aten", "cuda") for time in self.times(100)])
        b = self.write_lines("b.jsonl", [step_line(time, level="aten") for time in self.times(100)] + [{"level": "cuda", "not_timed": "exit code 70"}])
        said = self.compare(a, b, expect=1)
        self.assertIn(f"timed in one file only:\n   ranks=2 batch=16 micro_batch=8 level=cuda flops_per_item=3e+06: {b} has no time: exit code 70\n", said)
        without = self.write_lines("c.jsonl", [step_line(time) for time in self.times(100)])
        self.assertIn("have no row in common", self.compare(without, a, expect=2))

    def test_modules_have_two_times(self):
        a, b = (self.write_lines(name, [module_line(time, mean * time) for time in self.times(1)] + [module_line(None, None, level="triton", not_timed="no")])
                for name, mean in (("a.jsonl", 2), ("b.jsonl", 3)))
        said = self.compare(a, b, expect=1)
        row = re.escape("module=mlp config=llama_1b input=[8, 4096, 2048] dtype=bf16 level=cuda")
        self.assertRegex(said, rf"2 rows in both:\n   slower: {row} backward_milliseconds: B against A \+(49|50)(.|\n)*equal: {row} forward_milliseconds: ")
        lost = self.write_lines("d.jsonl", [module_line(None, None, not_timed="error 2.00 above 1")])
        self.assertIn(f"llama_1b input=[8, 4096, 2048] dtype=bf16 level=cuda backward_milliseconds: {lost} has no time: error 2.00 above 1\n",
                      self.compare(a, lost, expect=1))
        other = self.write_lines("c.jsonl", [module_line(1, 2, dtype="fp32")] * 5)
        self.assertIn("have no row in common", self.compare(a, other, expect=2))

    def test_files_that_cannot_be_compared(self):
        step = self.write_lines("a.jsonl", [step_line(100)] * 5)
        kernels = self.write_lines("b.jsonl", [kernel_line("swiglu", 5)] * 5)
        self.assertIn(f"a.jsonl is of bench step and {kernels} of bench kernels; expected", self.compare(step, kernels, expect=2))
        other = self.write_lines("c.jsonl", [step_line(100, model_teraflops_per_rank=7)] * 5)
        self.assertIn("have no row in common, the first is of ranks=2 batch=16", self.compare(step, other, expect=2))
        for text, words in (('{"op": 1', "d.jsonl:1: is not a whole line of JSON"), ("", "is empty"), (b"\xff\n", "the input is not UTF-8"),
                            ('\n{"x": 1}\n', "d.jsonl:2: is of no benchmark that can be compared; expected a line of bench kernels"),
                            ("[1]\n", "d.jsonl:1: is of no benchmark"), ("[" * 10**5, "d.jsonl:1: is not a whole")):
            self.assertIn(words, self.compare(step, self.write("d.jsonl", text), expect=3))
        for value in (0, -1, True, "1", None, math.nan, math.inf, 10**400):
            older = self.write_lines("e.jsonl", [{**step_line(1), "milliseconds": value}])
            self.assertIn(f"milliseconds is {value}, expected a number above 0; another version", self.compare(step, older, expect=3))
        older = self.write_lines("e.jsonl", [step_line(1, model_teraflops_per_rank="3")])
        self.assertIn("model_teraflops_per_rank is 3, expected a number; another version", self.compare(step, older, expect=3))


if __name__ == "__main__":
    unittest.main()
