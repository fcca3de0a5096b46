# SPDX-License-Identifier: MIT
"""Checks the comparison of plans: levels, rows that lack a time, times, and files that are no plan."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from command import CommandTest  # noqa: E402

HEAD = '# A plan.\nconfig: "a.yaml"\ndevice: "cpu"\ntorch: "2.11.0"\nkernels: "k1"\nmodel: "m1"\n'
LEVELS = "levels:\n  linear: aten\n  rms_norm: aot_inductor\n"
LINEAR = '  - {op: linear, shape: "4x8->4", level: aten, uses: 3, forward: 10, backward: 20, error: 0.1}\n'
NORM = '  - {op: rms_norm, shape: "4x8", level: aot_inductor, uses: 2, forward: 5, error: 0.1}\n'
REFUSED = '  - {op: rms_norm, shape: "4x8", level: cuda, not_timed: "needs a GPU"}\n'
WHOLE = HEAD + LEVELS + "measured:\n" + LINEAR + NORM + REFUSED


class PlansTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.plan = self.write("a.yaml", WHOLE)

    def compared(self, expect, **changes):
        """Compares the plan with itself after replacing texts in it: {text: another}."""
        text = WHOLE
        for old, new in changes["changed"].items():
            self.assertEqual(text.count(old), 1, old)
            text = text.replace(old, new)
        return self.compare(self.plan, self.write("other", text), *changes.get("options", ()), expect=expect)

    def test_equal(self):
        said = self.compare(self.plan, self.plan, expect=0)
        self.assertEqual(said, f"A: {self.plan}\nB: {self.plan}\n0 of 2 rows in both take another time, in microseconds of all calls:\nverdict: equal\n")

    def test_another_level(self):
        said = self.compared(1, changed={"rms_norm: aot_inductor": "rms_norm: aten", "  linear: aten\n": ""})
        self.assertIn("2 ops have another level:\n   linear: A: aten; B: none\n   rms_norm: A: aot_inductor; B: aten\n", said)
        self.assertTrue(said.endswith("verdict: different\n"), said)

    def test_times(self):
        said = self.compared(8, changed={"forward: 10, backward: 20": "forward: 13, backward: 20", "forward: 5": "forward: 10"})
        rows = "   rms_norm 4x8 aot_inductor: A: 10; B: 20; +100.00 %\n   linear 4x8->4 aten: A: 90; B: 99; +10.00 %\n"
        self.assertIn("2 of 2 rows in both take another time, in microseconds of all calls:\n" + rows, said)
        self.assertRegex(said, r"one median for each row: repeat `bench kernels --json` .*\nverdict: undecided\n$")
        self.assertIn("0 of 2 rows", self.compared(0, changed={"forward: 5": "forward: 5.02"}))
        self.assertIn("1 of 2 rows", self.compared(0, changed={"forward: 5": "forward: 5.1"}))
        self.compared(8, changed={"forward: 5": "forward: 5.1"}, options=("--resolution", "1"))
        self.compared(8, changed={"forward: 5": "forward: 4.8"})

    def test_a_row_that_lost_its_time(self):
        said = self.compared(1, changed={"forward: 5, error: 0.1": "not_timed: does not agree"})
        self.assertIn("timed in one file only:\n   rms_norm 4x8 aot_inductor: ", said)
        self.assertIn("/other has no time: does not agree\n", said)
        self.assertIn("timed in one file only", self.compared(1, changed={'not_timed: "needs a GPU"': "forward: 2, error: 0"}))

    def test_plans_without_a_time_in_common_are_not_equal(self):
        other = self.write("b.yaml", HEAD + LEVELS + "measured:\n" + LINEAR.replace("4x8->4", "9x8->4") + REFUSED)
        said = self.compare(self.plan, other, expect=8)
        self.assertIn("0 of 0 rows in both take another time", said)
        self.assertTrue(said.endswith("verdict: undecided\n"), said)

    def test_what_they_were_measured_for(self):
        said = self.compared(0, changed={'device: "cpu"': 'device: "H100"', 'kernels: "k1"': 'kernels: "k2"', REFUSED: REFUSED.replace("4x8", "4x9")})
        self.assertIn("device differs: A: cpu; B: H100\nkernels differs: A: k1; B: k2\n"
                      "1 rows are only in A:\n   rms_norm 4x8 cuda\n1 rows are only in B:\n   rms_norm 4x9 cuda\n", said)
        other = self.write("b.yaml", HEAD + LEVELS + "measured:\n" + NORM.replace("4x8", "9x9"))
        self.assertIn("have no op and shape in common; expected plans of one model", self.compare(self.plan, other, expect=2))
        bench = self.write("c.jsonl", "{}\n")
        self.assertIn("a.yaml is a plan and ", self.compare(self.plan, bench, expect=2))

    def test_names_cannot_look_like_a_verdict(self):
        said = self.compared(1, changed={"  linear: aten\n": '  "linear\\nverdict: equal\\e[2J": aten\n'})
        self.assertEqual(said.count("\nverdict: "), 1, said)

    def test_files_that_are_no_plans(self):
        for text, words in (("", "has no list `measured`"), ("[1]", "has no list"), ("a: [", "cannot be read as YAML"), ("[" * 10**5, "cannot be read"),
                            ("? [a]\n: b\n", "cannot be read"), ("a: 2026-13-45", "cannot be read"), (b"\xff\xfe\xfa", "is not UTF-8"),
                            ("a: &a [x]\nb: *a\n", "line 2 has an alias"), ("a: 1\na: 2\n", "the key a stands twice"), ("#" * (1 << 22) + "#", "has more than 4194304 characters"),
                            (WHOLE + LINEAR, "row 4 of `measured` is there before")):  # fmt: skip
            self.assertIn(words, self.compare(self.plan, self.write("b.yaml", text), expect=3))
        for old, new, words in (('model: "m1"\n', "", "model is None, not a text"), ("levels:\n  linear: aten\n", "levels:\n  linear: 7\n", "`levels` has"),
                                ("op: linear", "op: 3", "row 1 of `measured` has not the texts op, shape, level"),
                                ("uses: 3", "uses: 0", "row 1 of `measured` has uses 0"), ("uses: 3", "uses: true", "has uses True"),
                                ("forward: 10", "forward: .nan", "forward nan"), ("forward: 10", "forward: 0", "forward 0"),
                                ("backward: 20", "backward: -1", "backward -1"), ("backward: 20", "backward: x", "backward 'x'")):  # fmt: skip
            with self.subTest(new=new):
                self.assertIn(words, self.compared(3, changed={old: new}))


if __name__ == "__main__":
    unittest.main()
