# SPDX-License-Identifier: MIT
"""Checks what is drawn by lot, and what promise_error prints of made-up promises and steps."""
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

TOOL = os.path.join("tools", "promise", "promise_error.py")
sys.path[:0] = [os.path.join("tools", "promise"), "tools"]

import drawn  # noqa: E402

# A launcher whose steps take 1 ms a layer and micro-batch of one sample. Its promises are 2 % too long; those that recompute fail.
FAKE = r"""#!/usr/bin/env python3
import json, re, sys, time
words = sys.argv[1:]
with open(sys.argv[0] + ".calls", "a") as file:
    file.write(" ".join(words[:2]) + "\n")
if words[0] == "measure":
    sys.exit(WRONG)
if "gradient_checkpointing=full" in words:
    print("strata: out of order", file=sys.stderr)
    sys.exit(5)
keys = dict(word.split("=") for word in words if "=" in word)
milliseconds = int(keys["model.layers"]) * int(keys["batch"])
line = {"step_seconds": [1e-3 * factor * milliseconds for factor in (1, 1.02, 1.1)], "step_parts_seconds": {"forward ops": [0, 1, 2]}, "missing": {},
        "step_joules": [milliseconds, 1.05 * milliseconds, 2 * milliseconds]}
if words[0] == "bench":
    time.sleep(SLEEP)
    line = {"device": "A GPU", "ranks": 1, "cuda_graph": False, "skipped_steps": 0, "milliseconds": milliseconds, "milliseconds_p10": milliseconds,
            "milliseconds_p90": milliseconds, "watts": 1000, "predicted_peak_memory_bytes": 99, "peak_memory_bytes": 100}
with open(words[words.index("--json") + 1], "a") as file:
    file.write(json.dumps(line) + "\n")
"""


class DrawnTest(unittest.TestCase):
    def test_a_seed_draws_the_same(self):
        for device in ("cpu", "cuda"):
            for ranks in (1, 2):
                first, again, other = (list(drawn.lottery(random.Random(seed), 8, 5, ranks, device)) for seed in (3, 3, 4))
                self.assertEqual(first, again)
                self.assertNotEqual(first, other)
                self.assertEqual({base.kind for base, _ in first}, {"text", "vision", "graph"})

    def test_draws_differ_and_no_step_is_guessed_to_be_long(self):
        for base, draws in drawn.lottery(random.Random(1), 40, 6, 2, "cuda"):
            self.assertTrue(draws)
            self.assertEqual(len(set(draws)), len(draws))
            for draw in draws:
                self.assertTrue(4 <= draw.layers <= base.layers and 1 <= draw.micro_batches <= base.micro_batches)
                self.assertIn(f"batch={base.samples * draw.micro_batches}", draw.keys)
        text = {"width": 1024, "sequence": 1024, "vocabulary": 50304}
        self.assertGreater(drawn.flops(drawn.text, text, {}, 16, 32) / drawn.PACE["bfloat16"], drawn.LONGEST)


class PromiseErrorTest(unittest.TestCase):
    def compared(self, *words, wrong=0, sleep=0, earlier=()):
        """Returns exit code, output, lines of JSON and the calls. The file has the earlier lines already."""
        with tempfile.TemporaryDirectory() as folder:
            strata, lines = os.path.join(folder, "strata"), os.path.join(folder, "lines")
            with open(strata, "w", encoding="utf-8") as file:
                file.write(FAKE.replace("WRONG", str(wrong)).replace("SLEEP", str(sleep)))
            os.chmod(strata, 0o755)
            open(strata + ".calls", "a", encoding="utf-8").close()
            with open(lines, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in earlier)
            done = subprocess.run([sys.executable, "-B", TOOL, "--strata", strata, "--json", lines, *words], capture_output=True, text=True, timeout=120, check=False)
            with open(lines, encoding="utf-8") as file, open(strata + ".calls", encoding="utf-8") as calls:
                return done.returncode, done.stdout + done.stderr, [json.loads(line) for line in file], calls.read().split("\n")

    def test_errors_and_failures_are_counted(self):
        code, printed, lines, calls = self.compared("--bases", "3", "--draws", "4", "--device", "cuda", "--seed", "5")
        failed = printed.count("failed: validate ended with 5: strata: out of order")
        self.assertEqual(sum(call.startswith("measure") for call in calls), 3)
        self.assertEqual(len(lines) + failed, 12)
        self.assertGreater(failed, 0)
        self.assertEqual(code, 1)
        self.assertTrue(all(abs(line["error"] - 0.02) < 1e-9 and abs(line["memory_error"] + 0.01) < 1e-9 for line in lines))
        self.assertRegex(printed, r"error of a step: median 2\.00 %, worst \+2\.00 %")
        self.assertRegex(printed, r"error of memory: median 1\.00 %, worst -1\.00 %")
        self.assertRegex(printed, r"error of energy: median 5\.00 %, worst \+5\.00 %")
        self.assertIn(f"{len(lines)} configurations with 1 rank(s) were promised and measured, {failed} failed, 0 were left when time was over", printed)

    def test_draws_of_as_many_ranks_are_measured_once(self):
        words = ("--bases", "1", "--draws", "2", "--device", "cpu", "--seed", "2")
        _, printed, lines, calls = self.compared(*words)
        self.assertGreater(len(calls), 1, printed)
        _, printed, again, calls = self.compared(*words, earlier=lines)
        self.assertEqual((again, calls), (lines, [""]), printed)
        _, printed, both, _ = self.compared(*words, earlier=[{**line, "ranks": 4} for line in lines])
        self.assertEqual(len(both), 2 * len(lines), printed)
        self.assertIn(f"{len(lines)} configurations with 1 rank(s) were promised and measured", printed)

    def test_draws_of_a_configuration_with_the_same_words_are_measured(self):
        words = ("--bases", "1", "--draws", "2", "--device", "cpu", "--seed", "2")
        _, printed, lines, _ = self.compared(*words)
        self.assertGreater(len(lines), 0, printed)
        another_run = [{**line, "config": line["config"].replace('"layers": ', '"sequence": 1, "layers": ')} for line in lines]
        self.assertNotEqual(another_run, lines)
        _, printed, both, _ = self.compared(*words, earlier=another_run)
        self.assertEqual(len(both), 2 * len(lines), printed)

    def test_files_of_another_size_are_other_configurations(self):
        words = ("--bases", "1", "--draws", "2", "--device", "cpu", "--seed", "2", "--files")
        _, printed, lines, _ = self.compared(*words, "16")
        self.assertEqual([line["files"] for line in lines], [16, 16], printed)
        for side, count in (("16", 2), ("24", 4)):
            _, printed, both, _ = self.compared(*words, side, earlier=lines)
            self.assertEqual(len(both), count, printed)

    def test_a_base_that_cannot_be_measured_fails_with_its_draws(self):
        code, printed, lines, _ = self.compared("--bases", "1", "--draws", "3", wrong=6)
        self.assertEqual((code, lines, printed.count("failed: measure ended with 6")), (1, [], 3))

    def test_what_the_limit_leaves_is_counted(self):
        code, printed, lines, _ = self.compared("--bases", "2", "--draws", "3", "--device", "cpu", "--limit", "4", "--seed", "2", sleep=30)
        self.assertEqual((code, lines), (0, []))
        self.assertIn("0 failed, 6 were left when time was over", printed)
        self.assertNotIn("memory", printed)


if __name__ == "__main__":
    unittest.main()
