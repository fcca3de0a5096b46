# SPDX-License-Identifier: MIT
"""Measures the ops and steps of small models with the programs that `tools/strata measure` starts, and promises longer runs of them."""
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import unittest

import numpy
from PIL import Image

CALLS, STEPS, PROMISE = "tools/promise/call_times", "tools/bench/bench_step", "tools/promise/promise.py"
COMMON = "run: {folder: unused, device: cpu, threads: 1}\nsteps: 20\noptimizer: {type: adamw, learning_rate: 1e-3}\nschedule: {type: constant}\n"
TEXT = COMMON + ("batch: 4\nmicro_batch: 2\nmodel: {type: transformer, family: llama, layers: 4, width: 32, heads: 2, feed_forward: 48, "
                 "sequence: 16, vocabulary: 64}\n"
                 "data: {type: text, train: unused, validation: unused}\nevaluation: {every: 10, tokens: 64, final_tokens: 64}\n")
GRAPH = COMMON + ("batch: 1\nmicro_batch: 1\nmodel: {type: graph_network, convolution: sage, layers: 3, width: 16, features: 24, classes: 5}\n"
                  "data: {type: synthetic_graph, nodes: 200, edges: 1000}\n")


def vision(layers, width, folder):
    return COMMON + (f"batch: 16\nmicro_batch: 8\nmodel: {{type: vision_transformer, layers: {layers}, width: {width}, heads: 2, image_size: 32, patch: 8, "
                     f"classes: 2, pooling: mean}}\ndata: {{type: image_folder, train: {folder}/train, validation: {folder}/train, threads: 1}}\n"
                     "evaluation: {every: 10}\n")  # fmt: skip


def write_images(folder, side):
    """Writes 40 files of two classes."""
    for number in range(40):
        place = os.path.join(folder, "train", "class %d" % (number % 2))
        os.makedirs(place, exist_ok=True)
        pixels = numpy.random.default_rng(number).integers(0, 255, (side, side, 3)).astype(numpy.uint8)
        Image.fromarray(pixels).save(os.path.join(place, "%d.jpg" % number))


class MeasuredPromiseTest(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def path(self, name, text=None):
        path = os.path.join(self.folder, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def call(self, *arguments, expect=0):
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout if expect == 0 else done.stderr

    def promise(self, *arguments, expect=0):
        return self.call(sys.executable, "-B", PROMISE, *arguments, expect=expect)

    def measured(self, text, *keys):
        """Measures a configuration as the launcher does. Returns the promise of a run with these keys as JSON, and as text."""
        config, facts, lines, short, steps, times, said = (self.path(name) for name in ("config.yaml", "facts", "lines", "short", "steps", "times.jsonl", "said"))
        for appended in (lines, steps, times, said):
            with contextlib.suppress(FileNotFoundError):
                os.remove(appended)
        self.path("config.yaml", text)
        self.path("facts", self.call(CALLS, config))
        runs = [line.split() for line in self.promise("short", "--facts", facts, "--ranks", "1").splitlines()]
        self.call(CALLS, config, "--measure", lines)
        self.path("short", "".join(self.call(CALLS, config, *run) for run in runs))
        resident = ["--same-batch"] if json.loads(self.read("facts"))["feed"] else []
        for run in runs:
            self.call(STEPS, config, *run, *resident, "--warm-up", "5", "--steps", "10", "--profile-steps", "3", "--json", steps)
        self.assertEqual(self.promise("record", "--lines", lines, "--short", short, "--steps", steps, "--times", times).strip(), times)
        self.path("facts", self.call(CALLS, config, *keys))
        printed = self.promise("say", "--facts", facts, "--times", times, "--json", said)
        with open(said, encoding="utf-8") as file:
            return json.loads(file.read()), printed

    def test_threads_are_those_that_a_promise_expects(self):
        """A promise looks for what was measured with as many threads as its own process may have: also more than there are cores."""
        cores, own = os.sched_getaffinity(0), {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        more = str(os.cpu_count() + 1)
        for wanted, variables, allowed in ((1, {}, {min(cores)}), (1, {"OMP_NUM_THREADS": "1"}, cores),
                                           (int(more), {"OMP_NUM_THREADS": more, "OMP_WAIT_POLICY": "passive"}, cores)):  # fmt: skip
            lines = self.path("lines of %d on %d" % (wanted, len(allowed)) + "".join(variables))
            done = subprocess.run([CALLS, self.path("config.yaml", TEXT.replace(", threads: 1", "")), "--measure", lines], env={**own, **variables},
                                  text=True, capture_output=True, preexec_fn=lambda allowed=allowed: os.sched_setaffinity(0, allowed), timeout=300,
                                  check=False)  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(lines, encoding="utf-8") as file:
                self.assertEqual(json.loads(file.readline())["measured_threads"], wanted)

    def test_a_language_model(self):
        promise, printed = self.measured(TEXT)
        self.assertEqual((promise["missing"], promise["extrapolated"]), ({}, []), printed)
        parts = promise["step_parts_seconds"]
        self.assertAlmostEqual(promise["step_seconds"][1], sum(part[1] for part in parts.values()))
        self.assertGreater(parts["backward ops"][1], parts["forward ops"][1])
        self.assertEqual(parts["recomputation"][1], 0)
        self.assertGreater(promise["evaluations_seconds"][1], 0)
        # A real step of the same configuration, on a machine that may be loaded.
        steps = self.path("measured")
        self.call(STEPS, self.path("config.yaml"), "--profile-steps", "0", "--json", steps)
        with open(steps, encoding="utf-8") as file:
            seconds = 1e-3 * json.loads(file.read())["milliseconds"]
        self.assertLess(promise["step_seconds"][1], 4 * seconds)
        self.assertLess(seconds, 4 * promise["step_seconds"][1])

    def test_a_vision_transformer_whose_files_take_longer_than_its_layers_and_one_whose_files_do_not(self):
        for name, side, layers, width in (("reading", 700, 3, 16), ("computing", 40, 6, 192)):
            folder = self.path(name)
            write_images(folder, side)
            promise, printed = self.measured(vision(layers, width, folder))
            self.assertLessEqual(set(promise["missing"]), {"evaluations"}, printed)
            steps = self.path("measured " + name)
            self.call(STEPS, self.path("config.yaml"), "--own-data", "--profile-steps", "0", "--json", steps)
            measured = 1e-3 * json.loads(self.read("measured " + name))["milliseconds"]
            print(f"{name}: promised {promise['step_seconds'][1]:.4f} s, computation {promise['computation_seconds'][1]:.4f} s, "
                  f"reading {promise['reading_seconds'][1]:.4f} s, measured {measured:.4f} s")  # fmt: skip
            if name == "reading":  # steps of the same samples read them once
                self.call(STEPS, self.path("config.yaml"), "--own-data", "--same-batch", "--profile-steps", "0", "--json", self.path("once"))
                self.assertLess(1e-3 * json.loads(self.read("once"))["milliseconds"], 0.5 * measured)
            # Other programs may run here. A promise without the reading would be a tenth of what is measured.
            self.assertLess(abs(promise["step_seconds"][1] / measured - 1), 0.5, printed)
            self.assertEqual(promise["reading_seconds"][1] > promise["computation_seconds"][1], name == "reading", printed)
            self.assertEqual("steps wait for images" in printed, promise["reading_seconds"][1] > 0.05 * promise["step_seconds"][1])
            self.assertIn("images read a second", printed)

    def test_arrays_that_are_not_here_are_timed_on_random_ones_and_files_are_not_timed(self):
        text = vision(3, 16, "none")
        arrays = text.split("data:")[0] + "data: {type: idx, train_images: a, train_labels: b, validation_images: c, validation_labels: d}\n"
        promise, printed = self.measured(arrays)
        self.assertGreater(promise["reading_seconds"][1], 0, printed)
        promise, printed = self.measured(text)
        self.assertIsNone(promise["step_seconds"])
        self.assertIn("missing in wait for images: how fast images are read was not measured", printed)

    def test_a_storage_that_fails_while_it_is_timed_leaves_all_other_times(self):
        folder = self.path("failing")
        write_images(folder, 40)
        failing = os.path.join(folder, "train", "class 0", "40.jpg")
        os.symlink("/sys/class/net/lo/speed", failing)  # it has 4096 bytes, and to read it is an error
        with self.assertRaises(OSError), open(failing, "rb") as file:
            file.read()
        config, lines = self.path("config.yaml", vision(3, 16, folder)), self.path("lines")
        done = subprocess.run([CALLS, config, "--measure", lines], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, "strata: the reading of images is not timed: .*/40.jpg: cannot be read: ")
        measured = [json.loads(line) for line in self.read("lines").splitlines()]
        self.assertTrue(any("op" in line for line in measured))
        self.assertFalse(any("pass" in line for line in measured))

    def test_more_layers_micro_batches_and_recomputation_need_no_new_measurement(self):
        promise, printed = self.measured(TEXT, "model.layers=9", "batch=14", "gradient_checkpointing=full")
        # The line through the short steps of a loaded machine may fall below 0 at other numbers, and then there is no step.
        self.assertLessEqual(set(promise["missing"]), {"a step"}, printed)
        self.assertGreater(promise["step_parts_seconds"]["recomputation"][1], 0)

    def test_a_graph_network(self):
        promise, printed = self.measured(GRAPH)
        self.assertEqual(promise["missing"], {}, printed)
        self.assertIn("nodes a second", printed)

    def test_a_whole_graph_is_the_one_sample_of_all_ranks(self):
        facts = self.path("facts", self.call(CALLS, self.path("config.yaml", GRAPH), "run.ranks=2"))
        self.assertEqual(self.promise("short", "--facts", facts, "--ranks", "2").split(), ["run.ranks=2"])

    def test_other_shapes_are_missing_by_name(self):
        promise, printed = self.measured(TEXT, "model.width=64")
        self.assertIsNone(promise["step_seconds"])
        self.assertIn("missing in forward ops: linear 32x64->192 (aten, Float): not measured", printed)

    def test_the_times_of_another_machine_are_refused(self):
        self.path("config.yaml", TEXT)
        self.path("facts", self.call(CALLS, self.path("config.yaml")))
        head = {"version": 4, **{name: json.loads(self.call(CALLS, self.path("config.yaml")))[name] for name in ("device", "torch", "kernels")}}
        times = self.path("times.jsonl", json.dumps({**head, "device": "Another"}) + "\n")
        said = self.promise("say", "--facts", self.path("facts"), "--times", times, expect=3)
        self.assertIn("was measured with device Another", said)
        self.assertEqual(said.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
