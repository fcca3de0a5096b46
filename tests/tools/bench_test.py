# SPDX-License-Identifier: MIT
"""Checks bench_kernels and plan_kernels on the CPU: their output, and runs that follow a plan or refuse it."""
import json
import os
import re
import shutil
import sys
import unittest
import xml.etree.ElementTree as ElementTree

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [TESTS + "/tools/bench", TESTS + "/trainer"]

from bench_runs import BENCH, STEP, BenchRuns  # noqa: E402
from training_runs import command_of_ranks  # noqa: E402

CHECK = os.path.abspath("trainer/check")
PLAN, BENCH_GENERATE = os.path.abspath("tools/plan/plan_kernels"), os.path.abspath("tools/bench/bench_generate")
IMAGES, NEIGHBORS = os.path.abspath("tools/bench/images/bench_images"), os.path.abspath("tools/bench/bench_neighbors")
TRAIN, GENERATE, LEVELS = os.path.abspath("trainer/train"), os.path.abspath("tools/generation/generate"), os.path.abspath("tools/levels")
SIDE_BY_SIDE = os.path.abspath("tools/bench/side_by_side.py")


class BenchTest(BenchRuns):
    def test_images_are_timed_beside_libjpeg(self):
        self.run_program(IMAGES, "--width", "90", "--height", "60", "--images", "6", "--size", "32", "--threads", "2", "--rounds", "2", "--json", self.folder + "/rows")
        with open(self.folder + "/rows", encoding="utf-8") as file:
            row = json.load(file)
        self.assertEqual((row["width"], row["height"], row["size"], row["threads"]), (90, 60, 32, 2))
        for key in ("bytes_per_image", "libjpeg_images_per_second", "augmented_images_per_second", "share_of_libjpeg"):
            self.assertGreater(row[key], 0, key)

    def test_batches_of_neighbors_are_the_same_whoever_makes_them(self):
        config = self.write_config("graph")
        sampled = [NEIGHBORS, config, "data.neighbors=[3, 2]", "--steps", "8"]
        sizes = []
        for threads in ("1", "2"):
            output, _ = self.run_program(*sampled, "--threads", threads)
            values = dict(re.findall(r"([a-z][a-z /]*?) ([0-9.]+)(?:  |$)", output.strip()))
            self.assertEqual(values["threads"], threads)
            for rate in ("ms of a batch", "seeds/s", "edges/s"):
                self.assertGreater(float(values[rate]), 0, rate)
            sizes.append((values["nodes of a batch"], values["edges of a batch"]))
        self.assertEqual(*sizes)
        # Two nodes have 3 neighbors each, these 8 have 2 each; each node is also a neighbor of itself.
        self.assertLessEqual(float(sizes[0][1]), (2 * 3 + 2) + (8 * 2 + 8))
        _, errors = self.run_program(NEIGHBORS, config, "batch=1", "micro_batch=1", expect=2)
        self.assertIn("data.neighbors is not a list", errors)

    def test_generation(self):
        config = self.write_config("llama")
        size = ("--prompts", "3", "--length", "6", "--tokens", "8", "--rounds", "2", "--device", "cpu")
        windowed = "model.attention=causal & window(5)"
        for words, cache_bytes in (((), 13 * 4), (("--dtype", "bf16"), 13 * 2), (("--dtype", "fp16"), 13 * 2), ((windowed,), 5 * 4)):
            self.run_program(BENCH_GENERATE, config, *size, *words, "--json", self.folder + "/generation")
            with open(self.folder + "/generation", encoding="utf-8") as file:
                row = json.loads(file.readlines()[-1])
            self.assertEqual(row["steps"], 2 * 7)  # the first of the 8 tokens comes from the prompts, and the last is not computed
            # Keys and values of 3 rows in 2 layers of width 32.
            self.assertEqual(row["cache_bytes"], 2 * 3 * 2 * 32 * cache_bytes)
            self.assertAlmostEqual(row["tokens_per_second"] * row["step_milliseconds"] / 3e3, 1, places=6)
            self.assertAlmostEqual(row["weight_gigabytes_per_second"] * row["step_milliseconds"] * 1e6 / row["weight_bytes"], 1, places=6)
        _, errors = self.run_program(BENCH_GENERATE, config, "--length", "16", expect=2)
        self.assertIn("prompts of 16 and 64 tokens more do not fit into model.sequence, which is 16", errors)

    def test_times_each_level_and_direction_of_what_is_asked_for(self):
        rows = self.rows("--op", "swiglu", "--op", "adamw", "--level", "aten", "--level", "torchscript", "--dtype", "fp32")
        found = {(row["op"], row["level"], row["direction"]) for row in rows}
        self.assertEqual(found, {(op, level, direction) for level in ("aten", "torchscript")
                                 for op, direction in (("swiglu", "forward"), ("swiglu", "backward"), ("adamw", "forward"))})
        for row in rows:
            self.assertGreater(row["microseconds"], 0)
            self.assertLessEqual(row["error"], 1)
            # Bytes divided by time; the bytes are the same on every machine.
            moved = {"swigluforward": 3 * 2048 * 1024 * 4, "swiglubackward": 5 * 2048 * 1024 * 4, "adamwforward": 32 * 4e6}
            self.assertAlmostEqual(row["gigabytes_per_second"] * row["microseconds"] * 1e3 / moved[row["op"] + row["direction"]], 1, places=6)
            self.assertAlmostEqual(row["share_of_roofline"], row["gigabytes_per_second"] / row["copy_gigabytes_per_second"], places=6)
            self.assertRegex(row["kernels"], "^[0-9a-f]{16}$")
        self.assertEqual(self.output.count("\n"), len(rows) + 1)
        bars = ElementTree.parse(self.folder + "/svg").getroot().findall(".//{*}rect")
        self.assertEqual(len(bars), len(rows) + 1)  # one more for the background
        # JSON lines are appended; the picture is replaced.
        again = ("--op", "adamw", "--level", "aten", "--dtype", "fp32", "--device", "cpu", "--json", self.folder + "/rows", "--svg", self.folder + "/svg")
        self.run_program(BENCH, *again)
        with open(self.folder + "/rows", encoding="utf-8") as file:
            more = [json.loads(line) for line in file]
        self.assertEqual(more[:-1], rows)
        self.assertEqual(len(ElementTree.parse(self.folder + "/svg").getroot().findall(".//{*}rect")), 2)
        self.run_program(BENCH, *again[:6], "--device", "cpu", "--json", self.folder + "/nowhere/rows", expect=4)

    def test_stands_beside_what_peers_took(self):
        rows = self.rows("--op", "swiglu", "--level", "aten", "--level", "torchscript", "--dtype", "fp32")
        both = lambda level: sum(row["microseconds"] for row in rows if row["level"] == level)
        ours = min(("aten", "torchscript"), key=both)
        peers = [{**row, "level": peer, "microseconds": times * row["microseconds"]} for peer, times in (("eager", 3.0), ("compile", 2.0))
                 for row in rows if row["level"] == ours]
        # A level that did only half of the work is not compared.
        peers.append({**peers[0], "level": "half", "microseconds": 1e-3})
        peers.append({"op": "rotary", "shape": "other", "dtype": "bf16", "level": "eager", "not_timed": "no"})
        with open(self.folder + "/peers", "w", encoding="utf-8") as file:
            file.write("".join(json.dumps(row) + "\n" for row in peers))
        head, line = self.run_program(sys.executable, SIDE_BY_SIDE, "rows", "peers")[0].splitlines()
        self.assertEqual(head.split(), "op shape dtype ours us rate eager compile half peer / ours cuda / triton".split())
        self.assertRegex(line, rf"^swiglu +2048x1024 +fp32 +{ours} +[0-9.]+ \+ [0-9.]+ +[0-9]+ GB/s \+ [0-9]+ GB/s( +[0-9.]+ \+ [0-9.]+){{2}} +- +2\.00 +-$")

    def test_the_ratio_of_triton_and_cuda_is_of_both_directions(self):
        def row(op, level, direction, microseconds, **more):
            return {"op": op, "shape": "8x8", "dtype": "bf16", "level": level, "direction": direction, "microseconds": microseconds, **more}

        rows = [row("rms_norm", "cuda", "forward", 10.0), row("rms_norm", "cuda", "backward", 35.0), row("rms_norm", "triton", "forward", 20.0),
                row("rms_norm", "triton", "backward", 30.0), row("rms_norm", "aten", "forward", 1.0), row("swiglu", "cuda", "forward", 1.0),
                row("swiglu", "triton", "forward", 4.0), row("swiglu", "cuda", "backward", 1.0), row("dropout", "triton", "forward", 3.0),
                row("rms_norm", "cuda", "forward", 5.0)]  # fmt: skip
        with open(self.folder + "/made", "w", encoding="utf-8") as file:
            file.write("".join(json.dumps(each) + "\n" for each in rows))
        _, *lines = self.run_program(sys.executable, SIDE_BY_SIDE, "made")[0].splitlines()
        # (5 + 35) / (20 + 30), with the last of the repeated rows. Triton lacks the backward of swiglu, and cuda lacks dropout.
        self.assertEqual([(line.split()[0], line.split()[3], line.split()[-1]) for line in lines],
                         [("rms_norm", "cuda", "0.80"), ("swiglu", "cuda", "-"), ("dropout", "triton", "-")])

    def test_takes_shapes_by_name_and_by_text(self):
        text = "2x512 positions, 8 heads of 64, causal"
        rows = self.rows("--op", "attention", "--shape", "small", "--level", "aten", "--dtype", "fp32")
        self.assertEqual({(row["op"], row["shape"]) for row in rows}, {("attention", text)})
        self.assertTrue(self.output.startswith(f"small: attention {text}\n"), self.output)
        rows = self.rows("--shape", "2048x1024", "--op", "swiglu", "--level", "aten", "--dtype", "fp32")
        self.assertEqual({(row["op"], row["shape"]) for row in rows}, {("swiglu", "2048x1024")})
        rows = self.rows("--shape", "7x9->11 gelu bias", "--op", "linear", "--level", "aten", "--dtype", "fp32")
        self.assertEqual({(row["op"], row["shape"]) for row in rows}, {("linear", "7x9->11 gelu bias")})
        _, errors = self.run_program(BENCH, "--shape", "7x9->11 gelu bias", expect=2)  # of which op, it does not say
        self.assertIn("got 7x9->11 gelu bias", errors)
        _, errors = self.run_program(BENCH, "--op", "swiglu", "--shape", "2048x1024", "small", expect=2)
        self.assertIn("or a name (small, realistic), of an op that --op names; got small", errors)

    def test_takes_the_shapes_of_a_configuration(self):
        rows = self.rows("--config", self.config, "--level", "aten")
        shapes = {(row["op"], row["shape"]) for row in rows}
        self.assertLessEqual({("rms_norm", "32x32"), ("add_rms_norm", "32x32"), ("linear", "32x32->96"), ("linear", "32x48->32"), ("swiglu", "32x48"),
                              ("linear", "32x32->37"), ("cross_entropy", "32x37"), ("attention", "2x16 positions, 4 heads of 8, causal")}, shapes)
        self.assertNotIn("layer_norm", {op for op, _ in shapes})
        self.assertEqual({row["dtype"] for row in rows}, {"fp32"})
        shapes = {(row["op"], row["shape"]) for row in self.rows("--config", self.write_config("vision"), "--level", "aten")}
        self.assertLessEqual({("linear", "32x27->32 bias"), ("layer_norm", "32x32 bias"), ("add_layer_norm", "32x32 bias"), ("linear", "32x32->48 gelu bias"),
                              ("linear", "2x32->7 bias"), ("cross_entropy", "2x7"), ("attention", "2x16 positions, 4 heads of 8, full")}, shapes)
        shapes = {(row["op"], row["shape"]) for row in self.rows("--config", self.write_config("mixer"), "--op", "linear", "--level", "aten")}
        self.assertLessEqual({("linear", "32x27->32 bias"), ("linear", "64x16->24 gelu bias"), ("linear", "64x24->16 bias"),
                              ("linear", "32x32->48 gelu bias"), ("linear", "2x32->7 bias")}, shapes)

    def test_levels_are_listed_with_reasons(self):
        rows = [json.loads(line) for line in self.run_program(LEVELS, "--json")[0].splitlines()]
        self.assertEqual(len(rows), len({(row["op"], row["level"], row["device"]) for row in rows}))
        self.assertEqual(len(rows), 10 * len({row["op"] for row in rows}))
        for row in rows:
            self.assertEqual("reason" in row, not (row["forward"] and row["backward"]), row)
        self.run_program(LEVELS, "--jsn", expect=2)

    def test_times_whole_steps_of_each_family(self):
        for family, item in ("llama", "token"), ("vision", "image"), ("mixer", "image"), ("graph", "node"):
            whole = ["batch=1", "micro_batch=1"] if family == "graph" else []
            self.run_program(STEP, self.write_config(family), "kernels.default=aten", *whole, "--warm-up", "5", "--steps", "3", "--json", f"{self.folder}/{family}.json")
            with open(f"{self.folder}/{family}.json", encoding="utf-8") as file:
                result = json.loads(file.read())
            self.assertEqual(result["steps"], 3)
            per_step = result[item + "s_per_second"] * result["milliseconds"] / 1e3
            self.assertAlmostEqual(per_step, {"token": 32, "image": 2, "node": 40}[item], places=6)
            self.assertGreater(result["model_teraflops_per_rank"], 0)
            self.assertGreater(result["predicted_peak_memory_bytes"], 0)
            self.assertAlmostEqual(result["profile_overhead"], result["profiled_milliseconds"] / result["milliseconds"] - 1, places=6)
            self.look_at_breakdown(result, 1)

    def test_steps_that_prune_are_measured_whatever_the_first_is(self):
        config, losses = self.write_config("llama"), []
        for overrides in (["sparsity={pattern: 2:4}"], ["sparsity={pattern: 2:4, from_step: 2}"], []):
            self.run_program(STEP, config, "kernels.default=aten", *overrides, "--warm-up", "5", "--steps", "1", "--profile-steps", "0",
                             "--json", self.folder + "/pruned.json")  # fmt: skip
            with open(self.folder + "/pruned.json", encoding="utf-8") as file:
                losses.append(json.loads(file.readlines()[-1])["first_loss"])
        self.assertEqual(losses[1], losses[0])
        self.assertNotEqual(losses[2], losses[0])

    def test_steps_that_loss_scaling_skips_are_counted(self):
        """The scale fits from the start, from one of the measured steps on, or in none of them."""
        config = self.write_config("llama")
        for scaling, fewest, most in (("initial: 1024", 0, 0), ("initial: 1e9", 1, 29), ("initial: 1e9, backoff: 0.9999", 30, 30)):
            _, errors = self.run_program(STEP, config, "kernels.default=aten", "precision={compute: float16, loss_scaling: {%s}}" % scaling,
                                         "--warm-up", "5", "--steps", "30", "--profile-steps", "0", "--json", self.folder + "/scaled.json")  # fmt: skip
            with open(self.folder + "/scaled.json", encoding="utf-8") as file:
                skipped = json.loads(file.readlines()[-1])["skipped_steps"]
            self.assertTrue(fewest <= skipped <= most, skipped)
            if skipped:
                self.assertIn("warning: %d of the 30 measured steps did not update the weights, because gradients overflowed" % skipped, errors)
                self.assertIn("give --warm-up more steps", errors)
            else:
                self.assertNotIn("warning", errors)

    def test_skipped_steps_that_no_scale_helps_are_counted(self):
        """After a loss that is not finite no step updates the weights, unless run.on_nonfinite is skip."""
        config, fault = self.write_config("llama"), "fault={at: step 7 rank 0, kind: nan_loss}"
        for overrides, skipped in ((["run.on_nonfinite=skip"], 1), ([], 4), (["precision={compute: float16, loss_scaling: {initial: 128}}"], 4)):
            _, errors = self.run_program(STEP, config, "kernels.default=aten", fault, *overrides, "--warm-up", "5", "--steps", "5", "--profile-steps", "0",
                                         "--json", self.folder + "/fault.json", environment={"STRATA_FAULTS": "1"})  # fmt: skip
            with open(self.folder + "/fault.json", encoding="utf-8") as file:
                self.assertEqual(json.loads(file.readlines()[-1])["skipped_steps"], skipped)
            self.assertIn("warning: %d of the 5 measured steps did not update the weights, because the loss or a gradient was not finite in one of the steps\n"
                          % skipped, errors)  # fmt: skip

    def look_at_breakdown(self, result, ranks):
        parts = result["breakdown"]
        self.assertEqual(list(parts), ["forward", "backward", "optimizer", "other", "exposed_communication", "idle", "step", "communication"])
        self.assertAlmostEqual(sum(list(parts.values())[:6]), parts["step"], delta=1e-4)
        for phase in ("forward", "backward", "optimizer"):
            self.assertGreater(parts[phase], 0, parts)
        for part in ("other", "idle"):
            self.assertGreaterEqual(parts[part], 0, parts)
        # One rank does not wait for others, so its scope takes only a microsecond.
        if ranks > 1:
            self.assertGreater(parts["exposed_communication"], 0.01 * parts["step"], parts)
        else:
            self.assertLess(parts["exposed_communication"], 0.1 * parts["step"], parts)

    def test_a_step_is_broken_down_behind_the_steps_that_count(self):
        config = self.write_config("llama")
        step = [STEP, config, "kernels.default=aten", "run.ranks=2", "micro_batch=1", "--warm-up", "5", "--steps", "3", "--profile-steps", "2"]
        output, _ = self.run_program(*command_of_ranks(2, *step, "--json", self.folder + "/two.json"))
        with open(self.folder + "/two.json", encoding="utf-8") as file:
            result = json.loads(file.read())
        self.look_at_breakdown(result, 2)
        self.assertGreater(result["profiled_milliseconds"], 0)
        self.assertIsNone(result["profile_overhead"])  # there are only 2 profiled steps
        self.assertRegex(output, r"\nbreakdown\.exposed_communication +[0-9.]+\n")
        self.assertNotIn("profile of steps", output)
        self.assertEqual(sorted(name for name in os.listdir(self.folder) if name not in ("llama.yaml", "two.json")), ["data.bin", "images", "labels"])
        output, _ = self.run_program(STEP, config, "kernels.default=aten", "--warm-up", "5", "--steps", "1", "--profile-steps", "0")
        self.assertRegex(output, r"\nbreakdown +null\n")
        self.assertNotIn("profiled_milliseconds", output)
        _, errors = self.run_program(STEP, config, "kernels.default=aten", "--profile-steps", "0", "--profile", self.folder + "/profile", expect=2)
        self.assertIn("--profile wants the profile of at least one step", errors)

    def test_refuses_what_is_not_there(self):
        _, errors = self.run_program(BENCH, "--device", "cpu", "--op", "swigul", expect=2)
        self.assertIn("nothing to time", errors)
        self.run_program(BENCH, "--device", "cpu", "--dtype", "fp8", expect=2)

    def test_a_plan_of_a_graph_is_of_its_size(self):
        config, whole = self.write_config("graph"), ("batch=1", "micro_batch=1")
        path = self.run_program(PLAN, config, *whole, "--device", "cpu")[0].strip()
        with open(os.path.join(self.folder, path), encoding="utf-8") as file:
            plan = file.read()
        # There are 300 edges and a loop for each of 50 nodes. The sums of the first layer are the same in every step.
        for shape in ("50x20, 350 weighted edges sum", "50x7, 350 weighted edges sum"):
            self.assertRegex(plan, rf'op: neighbor_aggregate, shape: "{shape}", level: torchscript, uses: 1, forward: ')
        self.assertRegex(plan, r"\n  neighbor_aggregate: ")
        self.run_program(TRAIN, config, *whole, "kernels.plan=" + path, f"run.folder={self.folder}/graph")
        self.run_program(STEP, config, *whole, "kernels.plan=" + path, "--warm-up", "5", "--steps", "1")
        _, errors = self.run_program(TRAIN, config, *whole, "kernels.plan=" + path, "data.edges=301", expect=2)
        self.assertIn("it was measured for a model of hash", errors)

    def test_the_name_of_a_plan_has_what_it_must_fit(self):
        name = lambda *arguments: self.facts(PLAN, self.config, *arguments)["kernels.plan"]
        path = name("run.device=cpu")
        self.assertRegex(path, r"^plans/llama-.+-[0-9a-f]{8}\.yaml$")
        self.assertEqual(name("--device", "cpu"), path)
        self.assertEqual(name("run.device=cpu", "run.seed=7", "steps=3", "kernels.linear=aten"), path)
        for other in ("micro_batch=1", "model.layers=3", "precision.compute=bfloat16"):
            self.assertNotEqual(name("run.device=cpu", other), path)
        self.assertEqual(os.listdir(self.folder + "/plans") if os.path.exists(self.folder + "/plans") else [], [])
        if not os.path.exists("/dev/nvidia0"):
            _, errors = self.run_program(PLAN, self.config, "run.device=cuda", "--for-launcher", expect=2)
            self.assertIn("run.device is cuda, and there is no GPU here", errors)

    def test_the_name_of_a_plan_may_need_quotes(self):
        """The override that the launcher passes on means the same name to the reader of configurations."""
        for name in ("my #1 run", "a: b", "it's", 'say "x"', "#x", "- x", "[x]", "{a: b}", "*x", "&x", "!x", "null", "a\\b", "x ", "%x", "@x", "é"):
            with self.subTest(name):
                config = f"{self.folder}/{name}.yaml"
                shutil.copy(self.config, config)
                facts = self.facts(PLAN, config, "run.device=cpu")
                self.assertTrue(facts["kernels.plan"].startswith(f"plans/{name}-"), facts)
                read = self.facts(CHECK, config, "run.device=cpu", "kernels.default=best", facts["override"])
                self.assertEqual(read["kernels.plan"], facts["kernels.plan"])
                os.remove(config)

    def test_a_plan_is_made_followed_and_refused(self):
        for family in ("llama", "gpt2", "vision"):
            config = self.write_config(family)
            more = ["precision.linear={format: fp8, scaling: delayed}"] if family == "llama" else []
            path = self.run_program(PLAN, config, "--device", "cpu", *more)[0].strip()
            self.assertTrue(path.startswith(f"plans/{family}-"), path)
            facts = self.facts(PLAN, config, "run.device=cpu", *more)
            self.assertEqual((facts["kernels.plan"], facts["override"]), (path, "kernels.plan=" + path))
            self.assertIn(os.path.basename(path), os.listdir(self.folder + "/plans"))
            self.assertFalse([name for name in os.listdir(self.folder + "/plans") if not name.endswith(".yaml")])
            with open(os.path.join(self.folder, path), encoding="utf-8") as file:
                plan = file.read()
            planned = re.findall(r"^  (\w+): aot_inductor$", plan, re.MULTILINE)
            self.assertEqual(facts["packages.ops"], ",".join(sorted(planned)))
            norm, other = ("rms_norm", "layer_norm") if family == "llama" else ("layer_norm", "rms_norm")
            self.assertRegex(plan, rf"op: add_{norm}, key: {norm}, shape: \"32x32.*level: torchscript, uses: 4, forward: ")
            # The plan has a level for each op of the model and for no other. The head and the loss are timed as two ops
            # and as one; the plan chooses one of the two.
            self.assertRegex(plan, rf"\n  {norm}: ")
            self.assertNotRegex(plan, rf"\n  {other}: ")
            self.assertEqual("linear_cross_entropy, shape" in plan, family != "vision")
            self.assertNotEqual("\n  cross_entropy: " in plan, "\n  linear_cross_entropy: " in plan)
            # The run uses the plan, prints the source of each level, and trains.
            self.run_program(TRAIN, config, *more, "kernels.plan=" + path, f"run.folder={self.folder}/{family}")
            with open(f"{self.folder}/{family}/resolved.yaml", encoding="utf-8") as file:
                self.assertRegex(file.read(), r"linear: \w+ +# " + path)
            self.run_program(STEP, config, *more, "kernels.plan=" + path, "--warm-up", "5", "--steps", "1")
            if family != "vision":
                self.assertEqual(len(self.run_program(GENERATE, f"{self.folder}/{family}", "--prompt-ids", "1", "2", "--tokens", "3")[0].split()), 5)
        _, errors = self.run_program(TRAIN, config, expect=2)
        self.assertIn("kernels.default: best needs a measured plan and kernels.plan names none; make a plan with: tools/strata plan " + config, errors)
        # The plan is of another model, device or version of the kernels.
        _, errors = self.run_program(TRAIN, config, "kernels.plan=" + path, "micro_batch=1", expect=2)
        self.assertIn("it was measured for a model of hash", errors)
        for key in ("device", "torch", "kernels"):
            lines = [f'{key}: "another"' if line.startswith(key + ":") else line for line in plan.split("\n")]
            with open(self.folder + "/other.yaml", "w", encoding="utf-8") as file:
                file.write("\n".join(lines))
            _, errors = self.run_program(TRAIN, config, "kernels.plan=other.yaml", expect=2)
            self.assertRegex(errors, "cannot use other.yaml: it was measured for .* another, this is ")


if __name__ == "__main__":
    unittest.main()
