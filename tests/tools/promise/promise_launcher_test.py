# SPDX-License-Identifier: MIT
"""Checks what tools/launcher/promise.sh makes of a configuration: the levels of a plan, and the settings on which the time between ops depends."""
import os
import subprocess
import tempfile
import unittest

PLAN = """# The fastest levels
config: "configs/a.yaml"
levels:
  linear: cuda
  rms_norm: triton
  linear_cross_entropy: aten
measured:
  - {op: linear, shape: "8x8->8", level: aten, uses: 1, forward: 1}
  attention: torchscript
"""


class PromiseLauncherTest(unittest.TestCase):
    def words(self, command, facts):
        """Returns what the command adds to the arguments, or prints, with these facts."""
        values = " ".join(f"[{name}]='{value}'" for name, value in facts.items())
        script = (f"set -euo pipefail; ROOT=$PWD; source tools/launcher/common.sh; source tools/launcher/promise.sh; facts=({values}); arguments=(a=b); {command}; "
                  "printf '%s\\n' \"${arguments[@]}\"")  # fmt: skip
        return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split("\n")[:-1]

    def test_best_is_the_levels_of_its_plan(self):
        with tempfile.TemporaryDirectory() as folder:
            plan = os.path.join(folder, "a plan.yaml")
            with open(plan, "w", encoding="utf-8") as file:
                file.write(PLAN)
            named = ["a=b", "kernels.default=aten", 'kernels.plan=""', "kernels.linear=cuda", "kernels.rms_norm=triton", "kernels.linear_cross_entropy=aten"]
            self.assertEqual(self.words("name_levels", {"kernels.default": "best", "kernels.plan": plan}), named)
            kept = {"kernels.default": "best", "kernels.plan": plan, "kernels.rms_norm": "aten"}
            self.assertEqual(self.words("name_levels", kept), [word for word in named if "rms_norm" not in word])
            for facts in ({"kernels.default": "cuda", "kernels.plan": plan}, {"kernels.default": "best", "kernels.plan": folder + "/none"},
                          {"kernels.default": "best", "kernels.plan": ""}):  # fmt: skip
                self.assertEqual(self.words("name_levels", facts), ["a=b"])

    def test_settings_tell_steps_apart_whose_ops_are_the_same(self):
        facts = {"model.layers": "8", "cuda_graph": "auto", "sharding.prefetch": "1", "precision.linear.keep": "[blocks.0, blocks.7]"}
        one = self.words("settings", facts)
        for other in ({"cuda_graph": "off"}, {"sharding.prefetch": "2"}, {"sharding.gather_format": "compute"}, {"optimizer.moving_average": "0.99"},
                      {"precision.linear.keep": "[blocks.0]"}, {"precision.linear.keep": "[blocks.0, blocks.77]"}):  # fmt: skip
            self.assertNotEqual(one, self.words("settings", facts | other))
        # The last block has another number in a run of other layers.
        for same in ({"steps": "9"}, {"model.layers": "30", "precision.linear.keep": "[blocks.0, blocks.29]"}):
            self.assertEqual(one, self.words("settings", facts | same))
        first = {"model.layers": "8", "precision.linear.keep": "[blocks.7, blocks.0]"}
        self.assertEqual(self.words("settings", first), self.words("settings", {"model.layers": "3", "precision.linear.keep": "[blocks.2, blocks.0]"}))


if __name__ == "__main__":
    unittest.main()
