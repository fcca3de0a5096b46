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
import yaml

COMPILED = os.path.abspath("tools/bench/compiled")
sys.path[:0] = [COMPILED, os.path.dirname(COMPILED)]
import models  # noqa: E402
import packed_text  # noqa: E402
import peer_decoder  # noqa: E402
import peer_timing  # noqa: E402
import time_modules  # noqa: E402
import time_steps  # noqa: E402

BENCH = os.path.abspath("tools/bench/bench_modules")
GPT2, XL, LLAMA_1B, LLAMA, VISION = (os.path.abspath(f"configs/{name}.yaml") for name in ("gpt2_124m", "gpt2_xl", "llama_1b", "llama_8b", "quickstart_vision"))
SIZED = "model={type: vision_transformer, size: vit_%s_patch16_224, classes: 1000}"
SMALL = ["model.layers=2", "model.width=32", "model.heads=4", "model.sequence=16", "model.vocabulary=50"]
SMALL_LLAMA = [*SMALL, "model.key_value_heads=2", "model.feed_forward=64", "gradient_checkpointing=none"]
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
                         [(name, level) for name in time_modules.CASES for level in ("compile", "sdpa", "sdpa_max_autotune")])
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
                    if parameter.endswith((*time_modules.WITHOUT_GRADIENT, "later")):
                        continue
                    with self.subTest(name, level=level, parameter=parameter), \
                            mock.patch.dict(made.weights, {parameter: made.weights[parameter] * 1.05}), \
                            self.assertRaisesRegex(ValueError, "differs from the definition"):
                        made.check(level, made.module(level))

    def test_sets_of_inputs_fill_the_cache_twice(self):
        cache = peer_timing.cache_bytes("cpu")
        self.assertEqual([peer_timing.rotating_sets(size, "cpu") for size in (cache, cache // 4, 8 * cache, 1)], [3, 9, 2, 64])

    def test_all_sets_share_one_graph(self):
        """Otherwise torch.compile gives up after eight sets, and the others are timed without it."""
        def compile_without_compiler(module, **options):
            module._compiled_call_impl = torch.compile(module._call_impl, **{**options, "options": None, "backend": "eager"})

        for name in time_modules.CASES:
            made = workload(name)
            for level in made.case.levels:
                torch._dynamo.reset()
                torch._dynamo.utils.counters.clear()
                with self.subTest(name, level=level), mock.patch.object(torch.nn.Module, "compile", compile_without_compiler):
                    for module, x, _ in made.sets(level, made.module(level), peak=1)[:12]:
                        module(x, *made.tables)
                    self.assertEqual(torch._dynamo.utils.counters["stats"]["unique_graphs"], 1)

    def test_code_that_is_not_compiled_is_no_peer(self):
        product = torch.compile(lambda x, scale: x * scale, backend="eager", dynamic=False, fullgraph=True)
        with torch._dynamo.config.patch(fail_on_recompile_limit_hit=False):
            peer_timing.forbid_fallback()
            with self.assertRaisesRegex(Exception, "recompile_limit"):
                for scale in range(20):
                    product(torch.ones(2), scale)

    def test_the_gpu_sleeps_until_all_calls_are_queued(self):
        self.assertAlmostEqual(peer_timing.seconds_asleep(2e-4, 200), 0.06)
        self.assertEqual(peer_timing.seconds_asleep(1, 200), 0.5)
        self.assertEqual([peer_timing.calls_of_samples(whole) for whole in (1e-6, 1e-4, 5e-4, 1e-3, 0.1)], [(10, 20), (10, 20), (2, 20), (1, 20), (1, 7)])

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

        with contextlib.redirect_stdout(io.StringIO()) as output, mock.patch.object(sys, "argv", ["", "attention", "--device", "cpu", "--level", "compile", "--level", "sdpa"]), \
                mock.patch.object(time_modules.Workload, "times", times), mock.patch.object(torch.nn.Module, "compile"):
            time_modules.main()
        first, second = map(json.loads, output.getvalue().splitlines())
        self.assertEqual(first["not_timed"], "RuntimeError: no compiler")
        self.assertGreater(second["backward_milliseconds"], 0)

    def test_levels_are_ended_that_hold_back_the_exception_of_a_limit(self):
        rows = lines_of("time_modules.py", "attention", "--device", "cpu", "--limit", "0.3")
        self.assertEqual([(row["level"], row["not_timed"]) for row in rows], [(level, "it took more than 0.3 s") for level in time_modules.VARIANTS])
        self.assertEqual(rows[0]["config"], "quickstart.yaml")
        with tempfile.TemporaryDirectory() as folder:
            for program, words in (("import os\nos._exit(7)\n", "its process ended with 7"),
                                   ("try:\n while True: pass\nexcept Exception: pass\nwhile True: pass\n", "it took more than 5 s")):
                path = os.path.join(folder, "program.py")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(program)
                with mock.patch.object(time_modules, "__file__", path):
                    self.assertEqual(time_modules.time_in_own_process("attention", "cpu", "fp32", "sdpa", 5), {"not_timed": words})

    def test_a_level_that_takes_too_long_is_ended(self):
        with self.assertRaisesRegex(TimeoutError, "more than 0.1 s"), peer_timing.Limit(0.1):
            while True:
                pass
        with peer_timing.Limit(60):
            pass


class StepsTest(unittest.TestCase):
    def test_parameters_are_those_of_the_configurations(self):
        """The numbers stand in the configurations; those of named sizes are timm's."""
        for path, override, count in ((GPT2, [], 124_439_808), (XL, [], 1_557_611_200), (LLAMA_1B, [], 1_235_814_400), (LLAMA, [], 8_030_261_248),
                                      (VISION, [], 204_938), (VISION, [SIZED % "tiny"], 5_717_416), (VISION, [SIZED % "small"], 22_050_664),
                                      (VISION, [SIZED % "base"], 86_567_656), (VISION, [SIZED % "large"], 304_326_632)):  # fmt: skip
            model = models.with_sizes(peer_decoder.read_config(path, override)["model"])
            with self.subTest(path, override=override), torch.device("meta"):
                self.assertEqual(sum(parameter.numel() for parameter in models.class_of(model)(model).parameters()), count)

    def test_the_loss_of_a_llama_is_that_of_the_decoder(self):
        torch.manual_seed(1)
        sizes, config = peer_decoder.sizes_of(LLAMA_1B, SMALL_LLAMA)
        text = packed_text.Text(sizes, None)
        decoder = peer_decoder.Training(sizes, text, batch=4, micro_batch=4)
        llama = models.Llama(config["model"])
        llama.load_state_dict(decoder.model.float().state_dict())
        tokens, labels, _ = text.batch(torch.arange(4))
        wanted = decoder.backward(tokens, labels, None, labels.numel())
        loss = llama(tokens, labels)
        loss.backward()
        torch.testing.assert_close(loss.detach(), wanted)
        for parameter, other in zip(llama.parameters(), decoder.copies, strict=True):
            torch.testing.assert_close(parameter.grad, other.grad)

    settings = time_steps.settings_of(peer_decoder.read_config(VISION, []))

    def training(self, level="compile", path=VISION, overrides=()):
        config = peer_decoder.read_config(path, ["batch=8", "micro_batch=4", *overrides])
        with mock.patch.object(torch, "compile", lambda model, **_: model):
            return time_steps.checked_training(config, level)

    def test_gradients_of_a_step_are_those_of_the_whole_batch(self):
        for level in ("compile", "reduce_overhead"):  # with new memory for gradients, and with the same
            with self.subTest(level):
                self.check_two_gradients(self.training(level)[0])

    def check_two_gradients(self, training):
        training.choose()
        _, wanted = time_steps.gradients_of(training.model, training.inputs, 8)
        for _ in range(2):  # the second must not add to the first
            training.differentiate()
        for parameter, gradient in zip(training.model.parameters(), wanted):
            torch.testing.assert_close(parameter.grad, gradient, atol=1e-6, rtol=1e-4)

    def test_steps_of_one_rank_in_bfloat16(self):
        for path, overrides in ((GPT2, SMALL), (LLAMA, SMALL_LLAMA), (VISION, ["precision.compute=bfloat16"])):
            with self.subTest(path):
                training, error = self.training("compile", path, overrides)
                self.assertTrue(1e-4 < error < 0.05, error)  # float32 would be exact
                self.assertEqual({parameter.dtype for parameter in training.model.parameters()}, {torch.float32})
                with mock.patch.object(training, "forward", lambda *inputs: 1.3 * training.model(*inputs)), self.assertRaisesRegex(ValueError, "the loss is"):
                    time_steps.check_step(training, self.settings, torch.bfloat16)

    def test_recomputed_blocks_have_the_same_gradients(self):
        torch.manual_seed(1)
        model = models.Gpt2(peer_decoder.read_config(XL, SMALL)["model"])
        inputs = [part[:4] for part in time_steps.text_pool({"vocabulary": 50, "sequence": 16})]
        loss = model(*inputs)
        wanted, calls = torch.autograd.grad(loss, list(model.parameters())), []
        handle = model.blocks[1].up.register_forward_hook(lambda *_: calls.append(1))
        found_loss, found = time_steps.gradients_of(model, inputs, at_once=4)
        self.assertEqual(len(calls), 2)
        model(*inputs).backward()
        self.assertEqual(len(calls), 3)  # no longer computed again
        handle.remove()
        for mine, other in zip([found_loss, *found], [loss.detach(), *wanted], strict=True):
            self.assertTrue(torch.equal(mine, other))

    def check_step_with(self, name, broken):
        training, _ = self.training("reduce_overhead")
        with mock.patch.object(training, name, broken(training)):
            return time_steps.check_step(training, self.settings)

    def test_a_step_that_differs_is_not_timed(self):
        optimizer = lambda training: mock.Mock(zero_grad=lambda set_to_none: None, step=lambda: None, state=training.optimizer.state)
        times = lambda factor: lambda training: lambda *inputs: factor * training.model(*inputs)
        self.assertLess(self.check_step_with("forward", times(1)), 1e-5)
        for name, broken, words in (("forward", times(1.01), "the loss is"), ("optimizer", optimizer, "differs from the plain model"),
                                    ("differentiate", lambda training: lambda: training.model(*training.inputs).detach(), "differs from the plain model")):
            with self.subTest(name), self.assertRaisesRegex(ValueError, words):
                self.check_step_with(name, broken)

    def test_an_update_that_differs_is_not_timed(self):
        def changed(training, **values):
            training.optimizer.param_groups[0].update(values)

        def counted_wrong(training):
            for state in training.optimizer.state.values():
                state["step"] -= 1

        beta1, beta2 = self.settings["betas"]
        mutants = {"counter": counted_wrong,
                   "rate": lambda training: changed(training, lr=1.01 * self.settings["lr"]),
                   "decay": lambda training: changed(training, weight_decay=0),
                   "first beta": lambda training: changed(training, betas=(0.99 * beta1, beta2)),
                   "second beta": lambda training: changed(training, betas=(beta1, 0.99 * beta2))}
        for name, mutate in mutants.items():
            training, _ = self.training("reduce_overhead")
            mutate(training)
            with self.subTest(name), self.assertRaisesRegex(ValueError, "update 8 of .* differs from AdamW by"):
                time_steps.check_step(training, self.settings)
        training, _ = self.training("reduce_overhead")
        with mock.patch.object(training.optimizer, "step"), self.assertRaisesRegex(ValueError, "differs from AdamW by"):
            time_steps.check_step(training, self.settings)

    def test_gradients_of_one_rank_are_not_those_of_all(self):
        """The error that is allowed in bfloat16 is much less than the error of ranks whose gradients are not summed."""
        torch.manual_seed(1)
        model = models.Gpt2(peer_decoder.read_config(XL, SMALL)["model"])
        inputs = [part[:8] for part in time_steps.text_pool({"vocabulary": 50, "sequence": 16})]
        (loss, whole), (loss_by_parts, by_parts) = (time_steps.gradients_of(model, inputs, at_once) for at_once in (8, 1))
        torch.testing.assert_close(loss, loss_by_parts)
        self.assertLess(time_steps.check_gradients(model, by_parts, whole, 1e-4), 1e-4)
        _, of_rank = time_steps.gradients_of(model, [part[:4] for part in inputs], 4)
        most = time_steps.LARGEST_ERROR[torch.bfloat16]
        self.assertGreater(min(map(peer_timing.error_of, of_rank, whole)), 2 * most)
        with self.assertRaisesRegex(ValueError, "the gradient of embedding.weight differs from the plain model by"):
            time_steps.check_gradients(model, of_rank, whole, most)
        with self.assertRaisesRegex(ValueError, "differs"):
            time_steps.check_gradients(model, [2 * each for each in whole], whole, most)
        with self.assertRaisesRegex(ValueError, "is nan, and"):
            time_steps.check_loss(loss * float("nan"), loss)

    def test_steps_under_fsdp2(self):
        words = [XL, *SMALL, "--ranks", "2", "batch=8", "micro_batch=2", "--warm-up", "1", "--steps", "2"]
        for levels, compute, most in ((["fsdp2", "fsdp2_max_autotune"], "float32", 1e-5), (["fsdp2"], "bfloat16", 0.1)):
            rows = lines_of("time_steps.py", *words, "precision.compute=" + compute, *(f"--level={level}" for level in levels))
            self.assertEqual([(row["level"], row["ranks"], row.get("steps")) for row in rows], [(level, 2, 2) for level in levels], rows)
            for row in rows:
                self.assertAlmostEqual(row["loss"], 3.9, delta=0.3)  # the logarithm of 50
                self.assertTrue(0 < row["gradient_error"] < most, row)

    def test_a_llama_under_fsdp2(self):
        """In bfloat16 rotary tables stay float32, and in float32 nothing is rounded."""
        for types, most in (("precision.compute=float32", 1e-5), ("precision.reduce=float32", 0.05), ("precision.reduce=bfloat16", 0.05)):
            (row,) = lines_of("time_steps.py", LLAMA, *SMALL_LLAMA, "--ranks", "2", "batch=8", "micro_batch=2", "--level=fsdp2", "--steps=2", types)
            self.assertTrue(0 < row["gradient_error"] < most, row)
            self.assertAlmostEqual(row["tokens_per_second_and_rank"], 8 * 16 / 2 / row["milliseconds"] * 1e3)

    def test_sections_of_a_configuration_may_be_missing(self):
        config = peer_decoder.read_config(XL, [*SMALL, "batch=8", "micro_batch=2"])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "short.yaml")
            with open(path, "w", encoding="utf-8") as file:
                yaml.safe_dump({key: config[key] for key in ("model", "optimizer", "batch", "micro_batch")}, file)
            (row,) = lines_of("time_steps.py", path, "--ranks", "2", "--level=fsdp2", "--warm-up", "1", "--steps", "2")
        self.assertTrue(0 < row.get("gradient_error", 0) < 1e-5, row)

    def test_a_rank_that_fails_is_a_row_with_its_reason(self):
        (row,) = lines_of("time_steps.py", XL, *SMALL, "--ranks", "2", "batch=8", "micro_batch=2", "--level=fsdp2", "--limit=0.1")
        self.assertRegex(row["not_timed"], "it took more than 0.1 s")

    def test_wrong_configurations_are_refused(self):
        for words, expected in (([XL], "expected 256 at most"), ([VISION, "--ranks", "2"], "with --ranks 2 a transformer was expected"),
                                ([VISION, "model.dropout=0.1"], "has no dropout"), ([LLAMA, "model.logit_softcap=30"], "has no logit_softcap"),
                                ([VISION, "model.type=mixer"], "or a vision_transformer, was expected"), ([VISION, "model.size=vit"], "model.size is vit"),
                                ([VISION, "precision.compute=float16"], "expected compute and reduce in float32 or bfloat16"),
                                ([XL, "--ranks", "4", "batch=40"], "expected a multiple of 4 ranks times micro_batch, which is 8"),
                                ([XL, "--ranks", "4", "batch=2048"], "256 at most"), ([LLAMA, "--ranks", "4", "batch=4"], "gradient_checkpointing is"),
                                ([XL, "--ranks", "4", "batch=32", "gradient_checkpointing=full"], "gradient_checkpointing is full"),
                                ([XL, "--ranks", "4", "batch=32", "precision.linear.format=fp8"], "is not timed here"),
                                ([VISION, "--level", "fsdp2"], "--level fsdp2 was given with --ranks 1"),
                                ([XL, "--ranks", "4", "batch=32", "--level", "graph"], "expected fsdp2")):  # fmt: skip
            with mock.patch.object(sys, "argv", ["", *words]), contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
                time_steps.main()
            self.assertIn(expected, said.getvalue())


if __name__ == "__main__":
    unittest.main()
