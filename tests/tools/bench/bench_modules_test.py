# SPDX-License-Identifier: MIT
"""Checks bench_modules on the CPU: a row for plain PyTorch, each level and the best, JSON, picture, and what it refuses."""
import json
import os
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

BENCH = os.path.abspath("tools/bench/bench_modules")


def run(*words):
    return subprocess.run([BENCH, *words, "--device", "cpu"], capture_output=True, text=True, timeout=300, check=False)


class BenchModulesTest(unittest.TestCase):
    def test_a_row_for_each_level(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run("norm", "swiglu", "--dtype", "bf16", "--json", folder + "/rows", "--svg", folder + "/picture.svg")
            with open(folder + "/rows", encoding="utf-8") as file:
                rows = [json.loads(line) for line in file]
            picture = ElementTree.parse(folder + "/picture.svg").getroot()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        levels = ["plain PyTorch", "aten", "torchscript", "aot_inductor", "triton", "cuda", "best"]
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
                self.assertGreater(row["sets"], 1)
                self.assertGreaterEqual(min(row["forward_launches"], row["backward_launches"]), 1)
                self.assertIsNone(row["joules"])
                self.assertEqual(line[6:8], [f"{row['forward_launches']} + {row['backward_launches']}", "-"])
        for row, line in zip(rows, table):
            if row["level"] == "best":
                self.assertEqual(set(row["levels"]), {"norm": {"layer_norm"}, "swiglu": {"activation", "linear"}}[row["module"]])
                self.assertLessEqual(set(row["levels"].values()), {"aten", "torchscript", "aot_inductor"})
                self.assertEqual(line[-1], ", ".join(f"{op} at {level}" for op, level in row["levels"].items()))
        by_level = {row["level"]: row for row in rows if row["module"] == "norm"}
        self.assertGreater(by_level["torchscript"]["forward_launches"], by_level["aten"]["forward_launches"])  # one a step of the formula
        self.check_picture(picture, [row for row in rows if "not_timed" not in row])

    def check_picture(self, picture, rows):
        """A bar for each amount of each row that was timed; the least of a module has the whole length."""
        bars = [float(bar.get("width")) for bar in picture.findall("{*}rect")[1:]]
        texts = [text.text for text in picture.findall("{*}text")]
        self.assertEqual(len(bars), 4 * len(rows))
        for module in ("norm", "swiglu"):
            for amount in ("forward", "backward", "peak", "launches"):
                self.assertIn(f"{module} {amount}  8x128x128", texts)
        for i in range(0, len(bars), 5):  # plain PyTorch and the four levels that CPUs have
            self.assertEqual(max(bars[i : i + 5]), max(bars))
        seconds = [row["forward_milliseconds"] for row in rows[:5]]
        for bar, of_bar in zip(bars, seconds):
            self.assertAlmostEqual(bar / max(bars), min(seconds) / of_bar, delta=1e-3)

    def test_refuses_what_is_not_there(self):
        done = run("norm", "softmax")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("there is no module softmax; modules: linear, linear_activation, norm, norm_activation, attention, mlp, swiglu, ", done.stderr)
        self.assertEqual(run("norm", "--dtype", "fp8").returncode, 2)


if __name__ == "__main__":
    unittest.main()
