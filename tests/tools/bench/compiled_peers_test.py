# SPDX-License-Identifier: MIT
"""Checks the peers under torch.compile on the CPU, without the compiler: sizes, results, memory, and what must not be timed."""
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import torch

COMPILED = os.path.abspath("tools/bench/compiled")
sys.path[:0] = [COMPILED, os.path.dirname(COMPILED)]
import models  # noqa: E402
import peer_decoder  # noqa: E402
import peer_timing  # noqa: E402
import time_modules  # noqa: E402
import time_steps  # noqa: E402

BENCH = os.path.abspath("tools/bench/bench_modules")
XL, VISION = (os.path.abspath(f"configs/{name}.yaml") for name in ("gpt2_xl", "quickstart_vision"))
SMALL = ["model.layers=2", "model.width=32", "model.heads=4", "model.sequence=16", "model.vocabulary=50"]
WITHOUT_COMPILER = {**os.environ, "TORCH_COMPILE_DISABLE": "1", "OMP_NUM_THREADS": "1"}


def workload(name):
    torch.manual_seed(1)
    return time_modules.Workload(time_modules.CASES[name]("cpu"), "cpu", torch.float32)


def lines_of(program, *words):
    done = subprocess.run([sys.executable, "-B", os.path.join(COMPILED, program), *words], capture_output=True, text=True, timeout=250, check=False,
                          env=WITHOUT_COMPILER)  # fmt: skip
    if done.returncode:
        raise AssertionError(done.stdout + done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


class ModulesTest(unittest.TestCase):
    def test_rows_join_with_those_of_strata(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([BENCH, *time_modules.CASES, "--device", "cpu", "--json", folder + "/rows"], capture_output=True, check=True, timeout=250)
            with open(folder + "/rows", encoding="utf-8") as file:
                ours = {row["module"]: row for row in map(json.loads, file) if row["level"] == "plain PyTorch"}
        rows = lines_of("time_modules.py", *time_modules.CASES, "--device", "cpu")
        self.assertEqual([(row["module"], row["level"]) for row in rows],
                         [(name, level) for name in time_modules.CASES for level in ("compile", "sdpa")])
        for row in rows:
            self.assertNotIn("not_timed", row)
            for key in ("input", "config", "dtype"):
                self.assertEqual(row[key], ours[row["module"]][key], key)
            self.assertTrue(0 < row["forward_milliseconds_p10"] <= row["forward_milliseconds"] <= row["forward_milliseconds_p90"], row)
            self.assertGreater(row["sets"], 1)
            if row["level"] == "compile":  # without the compiler it is the code of plain PyTorch
                self.assertAlmostEqual(row["sets"] / ours[row["module"]]["sets"], 1, delta=0.5)  # by the same rule; peaks differ
                self.assertAlmostEqual(row["peak_bytes"] / ours[row["module"]]["peak_bytes"], 1, delta=0.35)

    def test_what_computes_something_else_is_not_timed(self):
        for name in time_modules.CASES:
            made = workload(name)
            for level in made.case.levels:
                made.check(level, made.module(level))
                for parameter in list(made.weights):
                    if parameter.endswith((*time_modules.ZERO, "later")):
                        continue
                    with self.subTest(name, level=level, parameter=parameter), \
                            mock.patch.dict(made.weights, {parameter: made.weights[parameter] * 1.05}), \
                            self.assertRaisesRegex(ValueError, "differs from the definition"):
                        made.check(level, made.module(level))

    def test_sets_of_inputs_fill_the_cache_twice(self):
        cache = peer_timing.cache_bytes("cpu")
        self.assertEqual([peer_timing.rotating_sets(size, "cpu") for size in (cache, cache // 4, 8 * cache, 1)], [3, 9, 2, 64])

    def test_the_peak_of_memory(self):
        made = workload("attention")
        module = torch.nn.Linear(128, 512)
        made.gradient, made.tables, x = torch.randn(1000, 512), [], torch.randn(1000, 128, requires_grad=True)
        self.assertEqual(made.peak_bytes(module, x), 4 * (1000 * 512 + 1000 * 128 + 128 * 512 + 512))

    def test_a_level_that_fails_leaves_the_others(self):
        real = time_modules.Workload.times

        def times(made, level):
            if level == "compile":
                raise RuntimeError("no compiler\nand more")
            return real(made, level)

        with contextlib.redirect_stdout(io.StringIO()) as output, mock.patch.object(sys, "argv", ["", "attention", "--device", "cpu"]), \
                mock.patch.object(time_modules.Workload, "times", times), mock.patch.object(torch.nn.Module, "compile"):
            time_modules.main()
        first, second = map(json.loads, output.getvalue().splitlines())
        self.assertEqual(first["not_timed"], "RuntimeError: no compiler")
        self.assertGreater(second["backward_milliseconds"], 0)

    def test_a_level_that_takes_too_long_is_ended(self):
        with self.assertRaisesRegex(TimeoutError, "more than 0.1 s"), peer_timing.Limit(0.1):
            while True:
                pass
        with peer_timing.Limit(60):
            pass


class StepsTest(unittest.TestCase):
    def test_parameters_are_those_of_the_configurations(self):
        with torch.device("meta"):
            made = [models.Gpt2(peer_decoder.read_config(XL, [])["model"]), models.VisionTransformer(peer_decoder.read_config(VISION, [])["model"])]
        self.assertEqual([sum(parameter.numel() for parameter in model.parameters()) for model in made], [1_557_611_200, 204_938])

    def training(self):
        config = peer_decoder.read_config(VISION, ["batch=8", "micro_batch=4"])
        with mock.patch.object(torch, "compile", lambda model, **_: model):
            return time_steps.on_one_rank(config, "compile")

    def test_gradients_of_a_step_are_those_of_the_whole_batch(self):
        training = self.training()
        training.choose()
        parameters = list(training.model.parameters())
        wanted = torch.autograd.grad(training.model(*training.inputs), parameters)
        with mock.patch.object(training.optimizer, "step"), mock.patch.object(torch.nn.utils, "clip_grad_norm_"):
            for _ in range(2):  # the second must not add to the first
                training.compute()
        for parameter, gradient in zip(parameters, wanted):
            torch.testing.assert_close(parameter.grad, gradient, atol=1e-6, rtol=1e-4)

    def test_a_compiled_model_that_differs_is_not_timed(self):
        training = self.training()
        with self.assertRaisesRegex(ValueError, "the gradient of a compiled model differs"):
            time_steps.check(training.model, lambda *inputs: 1.01 * training.model(*inputs), training.inputs)

    def test_steps_under_fsdp2(self):
        words = [XL, *SMALL, "precision.compute=float32", "micro_batch=2", "--warm-up", "1", "--steps", "2"]
        (row,) = lines_of("time_steps.py", *words, "--ranks", "2", "batch=8")
        self.assertEqual((row["level"], row["ranks"], row["steps"]), ("fsdp2", 2, 2))
        self.assertAlmostEqual(row["loss"], 3.9, delta=0.3)  # the logarithm of 50

    def test_wrong_configurations_are_refused(self):
        for words in ([XL], [VISION, "--ranks", "2"]):
            with mock.patch.object(sys, "argv", ["", *words]), contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
                time_steps.main()
            self.assertIn("was expected", said.getvalue())


if __name__ == "__main__":
    unittest.main()
