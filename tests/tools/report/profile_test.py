# SPDX-License-Identifier: MIT
"""Checks the tables of profiled steps: waits by rank, ops beside the roofline, and profiles that are damaged or missing."""
import json
import os
import unittest

from report_runs import ReportRuns, step_record

RANKS = ("rank", "steps", "milliseconds", "communication", "exposed", "idle")
OPS = ("op", "", "level", "calls", "ms", "share", "roofline", "longest kernel or function")


def step(number, rank, **times):
    return {"step": number, "rank": rank, "device": "cpu", "milliseconds": 100.0, "forward": 30.0, "communication": 8.0, "exposed": 4.0, "idle": 2.0, **times}


def row(op, milliseconds, level="aten", backward=False, roofline=None, kernels=(), **more):
    return {"step": 3, "layer": 0, "phase": "forward", "op": op, "backward": backward, "level": level, "calls": 2, "milliseconds": milliseconds,
            "roofline": roofline, "kernels": [{"name": name, "calls": 1, "milliseconds": time} for name, time in kernels], **more}


def lines(*records):
    return "".join(record if isinstance(record, str) else json.dumps(record) + "\n" for record in records)


class ProfileTest(ReportRuns):
    def test_waits_by_rank(self):
        """Rank 10 computes longer, so the others wait for it in the gathers."""
        files = {f"profile__rank-{rank}_jsonl": lines(step(3, rank), row("gather", 6 - rank / 2, "collective"), row("reduce", 1, "wait"),
                                                      step(4, rank, milliseconds=104, idle=None), row("gather", 6 - rank / 2, "collective"),
                                                      row("linear", 9)) for rank in (0, 2, 10)}  # fmt: skip
        page = self.report(self.run_folder("a", [step_record(1)], **files))
        times = ["2", "102.000", "8.000", "4.000", "1.000"]
        self.assertEqual(page.table(*RANKS, "gather (collective)", "reduce (wait)"),
                         [["0", *times, "6.000", "0.500"], ["2", *times, "5.000", "0.500"], ["10", *times, "1.000", "0.500"]])
        self.assertIn("a: 3 profiles", page.text())
        self.assertNotIn("No profile", page.text())

    def test_ops_beside_the_roofline(self):
        """3 ms at 50 % and 1 ms at 90 % are 2.4 ms of work in 4 ms."""
        kernels = [("fast", 0.25), ("slow", 2)]
        first = lines(step(3, 0), row("linear", 3, "cuda", roofline=0.5, kernels=kernels), row("linear", 2, "cuda", True), row("copy", 1, None))
        second = lines(step(3, 1), row("linear", 1, "cuda", roofline=0.9, kernels=kernels[:1]), row("linear", 1, "triton", calls=3))
        page = self.report(self.run_folder("a", [step_record(1)], **{"profile__rank-0_jsonl": first, "profile__rank-1_jsonl": second}))
        self.assertEqual(page.table(*OPS), [
            ["linear", "forward", "cuda", "2", "2.000", "50.0 %", "60 %", "slow and 1 more"], ["linear", "backward", "cuda", "1", "1.000", "25.0 %", "", ""],
            ["copy", "forward", "", "1", "0.500", "12.5 %", "", ""], ["linear", "forward", "triton", "1.5", "0.500", "12.5 %", "", ""]])

    def test_rates_that_are_advertised(self):
        for rates, words in (("advertised", True), ("measured", False), (None, False)):
            page = self.report(self.run_folder(str(rates), [step_record(1)], **{
                "profile__rank-0_jsonl": lines(step(3, 0, roofline_rates=rates), row("linear", 3, roofline=0.5))}))
            self.assertEqual("Both are advertised rates" in page.text(), words)

    def test_only_the_longest(self):
        collectives = [row(f"c{number}", number + 1, "collective") for number in range(10)]
        ops = [row(f"op{number}", 0.5) for number in range(60)]
        page = self.report(self.run_folder("a", [step_record(1)], **{"profile__rank-0_jsonl": lines(step(3, 0), *collectives, *ops)}))
        self.assertEqual(len(page.table(*OPS)), 40)
        self.assertEqual(len(page.table(*RANKS, *(f"c{number} (collective)" for number in range(9, 1, -1)))), 1)

    def test_dense_and_pruned_steps_are_apart(self):
        records = [step(3, 0, pruned=False), row("linear", 2), step(4, 0, pruned=True, milliseconds=300.0), row("linear", 6, step=4), row("x", 1, step=[4])]
        page = self.report(self.run_folder("a", [step_record(1)], **{"profile__rank-0_jsonl": lines(*records)}))
        for words in ("a, dense steps: 1 profile", "a, steps with pruned weights beside the roofline"):
            self.assertIn(words, page.text())
        tables = [table for table in page.tables if tuple(table[0]) in (RANKS, OPS)]
        self.assertEqual([table[1][2 if tuple(table[0]) == RANKS else 4] for table in tables], ["100.000", "2.000", "300.000", "6.000"])
        page = self.report(self.run_folder("b", [step_record(1)], **{"profile__rank-0_jsonl": lines(*records[2:])}))
        self.assertNotIn("pruned", page.text())

    def test_damaged_profiles(self):
        text = "</script><b>&"
        damaged = lines(step(3, 0), row(text, 1, text, kernels=[(text, 1)]), "{\n", "[1]\n", '{"step": 4', row(7, 1), row("x", 1, ["y"]), row("x", None),
                        row("x", 1, calls="2"), row("x", 1e308), row("x", 1e308, roofline="1"), row("x", 1) | {"kernels": [1, {"name": []}]})
        folder = self.run_folder("a", [step_record(1)], **{"profile__rank-0_jsonl": damaged, "profile__rank-1_jsonl": lines(row("no step", 1)),
                                                            "profile__rank-x_jsonl": lines(step(3, 0)), "profile__rank-3_jsonl": b"\xff\n"})  # fmt: skip
        os.mkfifo(folder + "/profile/rank-2.jsonl")  # a read would wait for ever
        page = self.report(folder)
        self.assertEqual(len(page.table(*RANKS)), 1)
        self.assertEqual([cells[0] for cells in page.table(*OPS)], ["x", text])
        self.assertEqual(page.table(*OPS)[1][7], text)

    def test_a_run_without_a_profile(self):
        page = self.report(self.run_folder("a", [step_record(1)], **{"profile__rank-0_jsonl": ""}))
        self.assertIn("No profile: train with", page.text())


if __name__ == "__main__":
    unittest.main()
