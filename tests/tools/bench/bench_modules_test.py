# SPDX-License-Identifier: MIT
"""Checks bench_modules on the CPU: a row for plain PyTorch and for each level, JSON, and what it refuses."""
import json
import os
import subprocess
import tempfile
import unittest

BENCH = os.path.abspath("tools/bench/bench_modules")


def run(*words):
    return subprocess.run([BENCH, *words, "--device", "cpu"], capture_output=True, text=True, timeout=300, check=False)


class BenchModulesTest(unittest.TestCase):
    def test_a_row_for_each_level(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run("norm", "swiglu", "--dtype", "bf16", "--json", folder + "/rows")
            with open(folder + "/rows", encoding="utf-8") as file:
                rows = [json.loads(line) for line in file]
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        levels = ["plain PyTorch", "aten", "torchscript", "aot_inductor", "triton", "cuda"]
        self.assertEqual([(row["module"], row["level"]) for row in rows], [(module, level) for module in ("norm", "swiglu") for level in levels])
        table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()[4:]]
        self.assertEqual([line[:2] for line in table], [[row["module"], row["level"]] for row in rows])
        for row, line in zip(rows, table):
            self.assertEqual((row["dtype"], row["config"], row["input"]), ("bf16", "quickstart.yaml", [8, 128, 128]))
            if row["level"] in ("triton", "cuda"):
                self.assertRegex(row["not_timed"], f"has no kernel at level {row['level']} on cpu")
                self.assertEqual(line[-1], "not timed: " + row["not_timed"])
            else:
                for direction in ("forward", "backward"):
                    median, least, most = (row[f"{direction}_milliseconds{share}"] for share in ("", "_p10", "_p90"))
                    self.assertTrue(0 < least <= median <= most, row)
                self.assertGreater(row["peak_bytes"], 8 * 128 * 128 * 2)  # at least the output
                self.assertLessEqual(row["error"], 1)

    def test_refuses_what_is_not_there(self):
        done = run("norm", "softmax")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("there is no module softmax; modules: linear, linear_activation, norm, norm_activation, attention, mlp, swiglu, ", done.stderr)
        self.assertEqual(run("norm", "--dtype", "fp8").returncode, 2)


if __name__ == "__main__":
    unittest.main()
