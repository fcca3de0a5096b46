# SPDX-License-Identifier: MIT
"""Checks what save_cost.py reads from metrics.jsonl."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

SAVE_COST = os.path.abspath("tools/bench/save_cost.py")


class SaveCostTest(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def write(self, name, steps, every, slow=lambda step: 0, written_after=10, last=None):
        """Writes a run whose steps take 100 ms and slow(step) more. The first step is a long one. `last` is the record of a save
        after the last step."""
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        lines = [{"step": 0, "weights_sha256": "a"}]
        for step in range(1, steps + 1):
            lines.append({"step": step, "loss": 1.0, "milliseconds": 5000 if step == 1 else 100 + slow(step)})
            if every and step % every == 0:
                lines.append({"step": step, "save": {"milliseconds": 4.0, "waited_milliseconds": 1.0}})
            if every and step > every and step % every == written_after % every:
                lines.append({"step": step, "checkpoint": step - written_after})
        if last:
            lines += [{"step": steps, "save": last}, {"step": steps, "checkpoint": steps}]
        with open(folder + "/metrics.jsonl", "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        return folder

    def run_on(self, *arguments, expect=0):
        done = subprocess.run([sys.executable, SAVE_COST, *arguments], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_stall_and_share(self):
        run = self.write("run", 350, 100, slow=lambda step: 300 if step % 100 == 1 else 0)
        said = self.run_on(run, "--most-ms", "50", "--most-percent", "3.5")
        self.assertEqual(said, "".join(
            f"save of step {step}: training stood still for 4.0 ms, 1.0 of them for the save before; on the disk after 10 steps\n"
            for step in (100, 200, 300)) + "steps 101-300: 103.00 ms on average, 100.00 without saves: they cost 3.00 %\n")
        self.assertIn("too much", self.run_on(run, "--most-percent", "2.9", expect=1))
        self.assertIn("too much", self.run_on(run, "--most-ms", "3.9", expect=1))

    def test_a_save_after_the_last_step_is_printed_and_not_held_against_the_limit(self):
        """It waits for the save of step 200, of which training has seen nothing."""
        said = self.run_on(self.write("ended", 205, 100, last={"milliseconds": 4045.0, "waited_milliseconds": 4043.0}), "--most-ms", "50")
        self.assertIn("save of step 200: training stood still for 4.0 ms, 1.0 of them for the save before; never on the disk\n"
                      "save of step 205: no step follows, it took 4045.0 ms, 4043.0 of them for the save before; on the disk after 0 steps\n", said)
        self.assertIn("too much", self.run_on(os.path.join(self.folder, "ended"), "--most-ms", "3.9", expect=1))

    def test_steps_that_are_slow_while_a_file_is_written_need_a_run_without_saves(self):
        run = self.write("busy", 100, 20, slow=lambda step: 10 if step > 20 else 0, written_after=20)
        self.assertIn("give a second run", self.run_on(run, expect=1))
        self.assertIn("110.00 ms on average, 100.00 without saves: they cost 10.00 %", self.run_on(run, self.write("quiet", 60, 0)))

    def test_one_save_or_none_has_no_time_to_the_next(self):
        self.assertIn("fewer than two saves", self.run_on(self.write("one", 150, 100), expect=1))
        self.assertIn("fewer than two saves", self.run_on(self.write("none", 150, 0), expect=1))

    def test_a_save_that_failed(self):
        run = self.write("failed", 90, 40, written_after=90)
        self.assertIn("save of step 40: training stood still for 4.0 ms, 1.0 of them for the save before; never on the disk",
                      self.run_on(run))


if __name__ == "__main__":
    unittest.main()
