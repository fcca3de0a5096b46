# SPDX-License-Identifier: MIT
"""The growth of a run's loss by number formats: measured with the weights of the run, larger for fewer bits, and with a section that a run takes."""
import json
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, "tests/trainer")
from training_runs import TrainingRuns, for_families  # noqa: E402

SENSITIVITY = os.path.abspath("tools/sensitivity/sensitivity")
WIDE = ["model.width=64", "model.layers=2", "model.dropout=0"]
LANGUAGE = [*WIDE, "model.heads=2", "model.key_value_heads=0", "model.feed_forward=96"]
LINEARS = [f"blocks.{layer}.{name}" for layer in (0, 1) for name in ("attention.qkv", "attention.output", "mlp.gate_up", "mlp.down")]


class SensitivityTest(TrainingRuns):
    def sensitivity(self, run, *options, expect=0):
        """Returns the lines of JSON by format."""
        path = self.path(run + ".json")
        if os.path.exists(path):
            os.remove(path)
        done = subprocess.run([SENSITIVITY, self.path(run), "--device", "cpu", "--json", path, *options], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        self.output, self.errors = done.stdout, done.stderr
        if expect:
            return None
        with open(path, encoding="utf-8") as file:
            return {line["format"]: line for line in map(json.loads, file)}

    def evaluation(self, run):
        return next(line for line in reversed(self.lines(run)) if "validation_loss" in line)

    def sections(self):
        """Returns the values of precision.linear that were printed, by format."""
        return {name: value for value, name in re.findall(r"^linear: (\{format: (\w+).*\})  #", self.output, re.MULTILINE)}

    def test_layers_and_formats(self):
        self.train("run", *LANGUAGE, "evaluation.tokens=0", "evaluation.final_tokens=0", ranks=1)
        found = self.sensitivity("run", "--samples", "1000")
        self.assertEqual(list(found), ["fp8", "mxfp8", "mxfp6", "mxfp4", "nvfp4"])
        evaluation = self.evaluation("run")
        loss, samples = evaluation["validation_loss"], evaluation["validation_tokens"] // 12
        means = {}
        for name, line in found.items():
            self.assertLess(abs(line["loss"] - loss), 1e-5 * loss)
            self.assertEqual(line["samples"], samples)
            self.assertEqual(list(line["growth_by_layer"]), LINEARS)
            growths = line["growth_by_layer"].values()
            self.assertTrue(all(growths), "a layer has no format")
            means[name] = sum(map(abs, growths)) / len(growths)
            self.assertLessEqual(line["growth_with_these_kept"], 0.003 * loss)
        self.assertLess(max(means["fp8"], means["mxfp8"]), min(means["mxfp4"], means["nvfp4"]))

    def test_the_section_is_one_of_a_run(self):
        self.train("run", *LANGUAGE, "steps=10", ranks=1)
        limit = min(self.sensitivity("run", "--formats", "mxfp4", "--limit", "1000")["mxfp4"]["growth_by_layer"].values()) / 2
        line = self.sensitivity("run", "--formats", "mxfp4", "--limit", str(max(limit, 0)))["mxfp4"]
        section = self.sections().get("mxfp4")
        if section is None:
            self.assertIn("mxfp4: no layer can have it", self.output)
            self.assertEqual(len(line["keep"]), len(LINEARS))
            return
        self.train("next", *LANGUAGE, "steps=4", "precision.linear=" + section, ranks=1)
        with open(self.path("next", "kernels.txt"), encoding="utf-8") as file:
            self.assertIn("mxfp4 (emulated)", file.read())

    def test_layers_without_whole_blocks_are_kept(self):
        """80 rows and 40 columns: no whole blocks of 32, and the 80 are whole blocks of 16."""
        narrow = [*LANGUAGE, "model.feed_forward=40", "steps=4"]
        self.train("run", *narrow, ranks=1)
        found = self.sensitivity("run", "--formats", "fp8,mxfp8,nvfp4", "--limit", "1000")
        self.assertIn("\n-: blocks of the format do not divide", self.output)
        sections = self.sections()
        for name, parts in (("fp8", ()), ("mxfp8", ("mlp.gate_up", "mlp.down")), ("nvfp4", ("mlp.down",))):
            kept = [layer for layer in LINEARS if layer.endswith(parts)] if parts else []
            self.assertEqual([layer for layer, growth in found[name]["growth_by_layer"].items() if growth is None], kept)
            self.assertEqual(found[name]["keep"], kept)
            self.train(name, *narrow, "precision.linear=" + sections[name], ranks=1)

    @for_families("vision", "mixer")
    def test_images(self, family, *overrides):
        more = ["model.heads=2", "model.patch=3"] if family == "vision" else []
        self.train(family, *overrides, *WIDE, *more, "precision.compute=bfloat16", "steps=10", ranks=1)
        line = self.sensitivity(family, "--formats", "fp8", "--samples", "50")["fp8"]
        self.assertEqual(line["samples"], 50)
        self.assertTrue(line["growth_by_layer"])
        # An evaluation takes the moving averages, if a run has them, and no dropout.
        line = self.sensitivity(family, "--formats", "fp8", "--samples", "1000")["fp8"]
        evaluation = self.evaluation(family)
        self.assertEqual(line["samples"], evaluation["validation_images"])
        self.assertLess(abs(line["loss"] - evaluation["validation_loss"]), 1e-4 * evaluation["validation_loss"])

    def test_refused(self):
        self.train("run", *LANGUAGE, "steps=4", ranks=1)
        self.sensitivity("run", "--formats", "fp4", expect=2)
        self.sensitivity("run", "--step", "7", expect=4)
        self.sensitivity("nowhere", expect=2)

    @for_families("graph")
    def test_graphs_are_refused(self, family, *overrides):
        self.train(family, *overrides, "steps=4", ranks=1)
        self.sensitivity(family, expect=2)
        self.assertIn("the products of a graph_network take no number format", self.errors)


if __name__ == "__main__":
    unittest.main()
