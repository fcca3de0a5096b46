# SPDX-License-Identifier: MIT
"""The numbers of a report are those of the files, parts without data say so, and many steps make a small page."""
import json
import math
import os
import random
import unittest

from report_runs import MEMORY, RESOLVED, VALUES, ReportRuns, ledger, step_record

MOST_BYTES, MOST_SECONDS = 2_000_000, 5
FACTS = {"device": "NVIDIA H200 with a name of some length", "ranks": "2", "LibTorch": "2.11.0"}


def seven_digits(value):
    return float(f"{value:.7g}")


class ReportTest(ReportRuns):
    def test_numbers_are_those_of_the_files(self):
        source = random.Random(1)
        records = [step_record(step, loss=10 ** source.uniform(-9, 9), gradient_norm=source.random()) for step in range(1, 51)]
        records += [{"step": 25, "validation_loss": 2.1234567890123, "validation_accuracy": 0.75},
                    {"step": 50, "validation_loss": 2, "validation_accuracy": 1}]  # fmt: skip
        files = {"resolved_yaml": RESOLVED, "memory_txt": MEMORY, "kernels_txt": "op  root\nlinear  aten\n", "ledger__rank-0": ledger((0, FACTS)),
                 "profile__rank-0_txt": "profile of steps 3-4"}  # fmt: skip
        page = self.report(self.run_folder("a", records, **files))
        self.assertNotRegex(page.source, "https?:")
        steps = [record for record in records if "loss" in record]
        for identity, name, scale in (("loss", "loss", 1), ("gradient_norm", "gradient_norm", 1), ("learning_rate", "learning_rate", 1),
                                      ("rate", "tokens_per_second", 1), ("milliseconds", "milliseconds", 1), ("memory", "memory_bytes", 2**-30)):
            self.assertEqual(page.chart(identity)["rows"], [[record["step"], seven_digits(record[name] * scale)] for record in steps], name)
        self.assertEqual(page.chart("rate")["title"], "Tokens/s")
        self.assertEqual(page.chart("phases-0")["rows"], [[record["step"], *record["phases"].values()] for record in steps])
        self.assertEqual(page.chart("phases-0")["stack"], list(records[0]["phases"]))
        self.assertEqual(page.chart("validation_loss")["rows"], [[25, 2.123457], [50, 2]])
        self.assertEqual(page.table("step", "validation_loss", "validation_accuracy"), [["25", "2.1234567890123", "0.75"], ["50", "2", "1"]])
        self.assertEqual(page.table("key", "value", "origin"), [[*row] for row in VALUES if row[2] != "default"] + [[*row] for row in VALUES])
        predicted = [["master parameters", "3,407,872", "3.25"], ["most at once", "12,345,678", "11.77"]]
        self.assertEqual(page.table("predicted for a rank", "bytes", "MiB"), [*predicted, ["measured, at most", "460,144,690", "438.83"]])
        self.assertIn(["forward", "1.00    1.2 %"], page.table("phase", os.path.join(self.folder, "a")))
        self.assertEqual(page.table("", "from step 1"), [[name, value] for name, value in FACTS.items()])
        self.assertIn("profile of steps 3-4", page.parts["pre"][0])
        self.assertIn("linear  aten", page.parts["pre"][1])
        [[_, done, loss, best, rate, state]] = page.table("run", "steps", "last loss", "best validation loss", "median rate", "state")
        self.assertEqual((done, loss, best, rate, state),
                         ("50 of 50", f"{records[49]['loss']:.7g}", "2 after step 50", "20,026 tokens/s", "all steps are done"))

    def test_a_hundred_thousand_steps(self):
        count = 100_000
        losses = [2 + math.sin(step) for step in range(1, count + 1)]
        losses[54_320], losses[77_776] = 1000.0, -5.0
        page = self.report(self.run_folder("long", [step_record(step, loss=loss) for step, loss in enumerate(losses, 1)]))
        self.assertLess(len(page.source.encode()), MOST_BYTES)
        self.assertLess(self.seconds, MOST_SECONDS)
        width, rows = page.data["width"], page.chart("loss")["rows"]
        self.assertEqual(page.data["last"], count)
        self.assertIn(f"Each point is {width} steps", page.text())
        self.assertEqual(len(rows), math.ceil(count / width))
        for x, (low, mean, high) in rows:
            some = losses[x - 1:x - 1 + width]
            self.assertEqual((low, high), (seven_digits(min(some)), seven_digits(max(some))))
            self.assertAlmostEqual(mean, sum(some) / len(some), delta=1e-6 * max(map(abs, some)))
        self.assertEqual((max(high for _, (_, _, high) in rows), min(low for _, (low, _, _) in rows)), (1000.0, -5.0))

    def test_several_long_runs_make_a_small_page_too(self):
        runs = [self.run_folder(f"run{i}", [step_record(step, loss=random.random()) for step in range(1, 8001)]) for i in range(8)]
        page = self.report(*runs)
        self.assertLess(len(page.source.encode()), MOST_BYTES)
        self.assertEqual({len(row) for row in page.chart("loss")["rows"]}, {9})

    def test_losses_that_are_not_finite(self):
        lines = [step_record(1), step_record(2, loss=None), step_record(3, loss=math.nan), step_record(4, loss=math.inf, skipped=True),
                 step_record(5, gradient_norm=-math.inf), step_record(6)]  # fmt: skip
        lines += ['{"step":7,"loss":1e999}\n', '{"step":8,"loss":"high"}\n', f'{{"step":9,"loss":1{"0" * 400}}}\n']
        page = self.report(self.run_folder("a", lines))
        self.assertEqual(page.chart("loss")["rows"], [[step, 2.5 if step in (1, 5, 6) else None] for step in range(1, 10)])
        faults = page.table("step", "what", "more")
        self.assertEqual([row[0] for row in faults if row[1:] == ["not finite", "loss"]], ["2", "3", "4", "7", "8", "9"])
        self.assertEqual([row[:2] for row in faults if row[0] == "5"], [["5", "not finite"]])
        self.assertIn(["4", "skipped", "the update was left out"], faults)
        self.assertIn("Faults: not finite 7, skipped 1.", page.text())
        page = self.report(self.run_folder("none", [step_record(1, loss=None), {"step": 1, "validation_loss": None}]))
        self.assertFalse({"loss", "validation_loss"} & {chart["id"] for chart in page.data["charts"]})
        self.assertEqual(page.table("step", "validation_loss"), [["1", "null"]])

    def test_a_bucket_is_of_its_finite_steps(self):
        records = [step_record(step, loss=None if step % 2 or step > 9000 else step) for step in range(1, 10_001)]
        page = self.report(self.run_folder("a", records))
        width = page.data["width"]
        self.assertGreater(width, 2)
        rows = dict(page.chart("loss")["rows"])
        for x, value in rows.items():
            some = [step for step in range(x, x + width) if step % 2 == 0 and step <= 9000]
            self.assertEqual(value, None if not some else some[0] if len(some) == 1 else [some[0], seven_digits(sum(some) / len(some)), some[-1]])

    def test_a_resumed_run(self):
        pair = [{"step": 4, "weights_sha256": "a"}, {"step": 4, "checkpoint": 4}]
        save = {"step": 4, "save": {"milliseconds": 3.5, "waited_milliseconds": 0}}
        records = [{"step": 0, "weights_sha256": "a"}, *map(step_record, (1, 2, 3, 4)), save, *pair, *map(step_record, (5, 6)),
                   {"step": 6, "checkpoint": 5}, step_record(7), {"step": 7, "checkpoint": 7}]  # fmt: skip
        facts = [(0, FACTS), (4, {**FACTS, "ranks": "4"})]
        page = self.report(self.run_folder("a", records, **{"ledger__rank-0": ledger(*facts) + b"torn"}))
        self.assertEqual(page.table("start", "first step", "ranks", "device"), [["1", "1", "2", FACTS["device"]], ["2", "5", "4", FACTS["device"]]])
        self.assertEqual(page.table("step", "training stood still, ms", "waited for the save before, ms"), [["4", "3.5", "0"]])
        self.assertIn("No fault was recorded.", page.text())
        # Without a ledger, and with a rollback, which is no start.
        rollback = [{"step": 7, "weights_sha256": "a"}, {"step": 7, "rollback": 9}, {"step": 7, "checkpoint": 7}, step_record(8)]
        page = self.report(self.run_folder("b", [*records, *rollback]))
        self.assertEqual(page.table("start", "first step", "ranks", "device"), [["1", "5", "", ""]])
        self.assertEqual(page.table("step", "what", "more"), [["7", "rollback", "9"]])

    def test_repeated_steps_replace_those_before(self):
        records = [*(step_record(step, loss=1.0) for step in range(1, 9)), *(step_record(step, loss=2.0, loss_scale=4.0) for step in (5, 6))]
        page = self.report(self.run_folder("a", records))
        self.assertEqual(page.chart("loss")["rows"], [[1, 1], [2, 1], [3, 1], [4, 1], [5, 2], [6, 2]])
        self.assertEqual(page.chart("loss_scale")["rows"], [[1, None], [2, None], [3, None], [4, None], [5, 4], [6, 4]])
        self.assertIn("4 steps of metrics.jsonl were trained again", page.text())
        evaluations = [{"step": step, "validation_loss": step / 10} for step in (1, 2, 3)]
        records = [step_record(1), evaluations[0], step_record(2), step_record(3), evaluations[2], step_record(2), evaluations[1]]
        page = self.report(self.run_folder("b", records))
        self.assertEqual(page.chart("validation_loss")["rows"], [[1, 0.1], [2, 0.2]])

    def test_lines_that_are_no_records(self):
        text = [step_record(1), step_record(2), "[1, 2]\n", '{"loss": 1}\n', "\0\0\0\n", "[" * 100_000 + "\n", json.dumps(step_record(3))[:70]]
        page = self.report(self.run_folder("a", text))
        self.assertEqual(page.chart("loss")["rows"], [[1, 2.5], [2, 2.5]])
        for words in ("Line 3 of metrics.jsonl is not a record", "So are 2 more lines."):
            self.assertIn(words, page.text())
        page = self.report(self.run_folder("b", [step_record(1), json.dumps(step_record(2))[:70]]))
        self.assertIn("Line 2 of metrics.jsonl is cut off and is left out.", page.text())

    def test_missing_files(self):
        page = self.report(self.run_folder("started", resolved_yaml=RESOLVED))
        self.assertEqual(page.data["charts"], [])
        for words in ("No step was recorded", "No phases", "profile.steps=10-20", "No prediction", "evaluation.every=200", "ledger/rank-0"):
            self.assertIn(words, page.text())
        page = self.report(self.run_folder("records", [step_record(1, phases=7)]))
        for words in ("No phases", "No configuration", "No prediction", "tools/strata validate", "No levels"):
            self.assertIn(words, page.text())
        os.mkdir(os.path.join(self.folder, "empty"))
        os.remove(self.folder + "/page.html")
        for name in ("empty", "nowhere"):
            self.report(os.path.join(self.folder, name), expect=3)
            self.assertIn(f"{name}: expected the folder of a run, with resolved.yaml or metrics.jsonl; it has neither", self.said)

    def test_runs_side_by_side(self):
        other = RESOLVED.replace("ranks: 2", "ranks: 4").replace("    - only: 1-3  # a.yaml:8\n      linear: triton  # a.yaml:8\n", "")
        runs = [self.run_folder("a", [step_record(step, loss=1.0) for step in (1, 2, 3)], resolved_yaml=RESOLVED),
                self.run_folder("b", [step_record(step, loss=2.0) for step in (2, 3, 4)], resolved_yaml=other)]  # fmt: skip
        page = self.report(*runs)
        self.assertEqual(page.chart("loss")["rows"], [[1, 1, None], [2, 1, 2], [3, 1, 2], [4, None, 2]])
        self.assertEqual(page.data["runs"], runs)
        self.assertEqual(page.table("key", *runs), [["run.ranks", "2", "4"], ["kernels.layers.1.only", "1-3", "not there"],
                                                    ["kernels.layers.1.linear", "triton", "not there"]])  # fmt: skip
        self.assertIn("8 values are equal.", page.text())
        self.assertIn("All values are equal.", self.report(runs[0], runs[0]).text())

    def test_failures(self):
        errors = {f"error{i}_json": json.dumps({"code": 137, "message": f"killed {i}"}) for i in ("-2", "-10", "-1")}
        last = '{"code": 5, "rank": null, "message": "a gradient\\nis NaN", "hint": ""}'
        page = self.report(self.run_folder("a", [step_record(1)], error_json=last, **errors))
        heads = [table[0][0] for table in page.tables if table[0][0].startswith("error")]
        self.assertEqual(heads, ["error-1.json", "error-2.json", "error-10.json", "error.json"])
        self.assertEqual(page.table("error.json", ""), [["code", "5"], ["rank", "null"], ["message", "a gradient\nis NaN"]])
        self.assertIn("failed with exit code 5", page.text())
        self.assertIn("half", self.report(self.run_folder("b", [step_record(1)], error_json='{"code": 5, half')).text())

    def test_the_page_is_a_file(self):
        run = self.run_folder("a", [step_record(1)])
        self.report(run)
        first = self.report(run).source
        self.assertEqual(first, self.report(run).source, "the same files make the same page")
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith(".")], [])
        page = self.folder + "/page.html"
        os.rename(page, self.folder + "/old.html")
        os.symlink("old.html", page)
        self.report(run)
        self.assertTrue(os.path.islink(page))

    def test_other_files_are_not_replaced(self):
        run = self.run_folder("a", [step_record(1)])
        os.mkfifo(self.folder + "/pipe")
        os.symlink("nothing", self.folder + "/link")
        for name in ("a/metrics.jsonl", "a", "pipe", "link"):
            self.assertEqual(self.start_report(run, "--output", os.path.join(self.folder, name)), 2, self.said)
            self.assertIn("expected a new name or a page to replace", self.said)
        self.assertEqual(sorted(os.listdir(self.folder)), ["a", "link", "pipe"])
        self.assertEqual(self.report(run).chart("loss")["rows"], [[1, 2.5]])
        self.assertEqual(self.start_report(run, "--output", ""), 2)
        self.assertIn("--output wants a value that is not empty", self.said)
        self.assertEqual(self.start_report(run, "--output", self.folder + "/nowhere/page.html"), 4)
        self.assertEqual(self.said, f"strata: --output {self.folder}/nowhere/page.html: No such file or directory\n")
        self.assertEqual(self.start_report(run, "--output", os.fsencode(self.folder) + b"/\xff.html"), 0, self.said)


if __name__ == "__main__":
    unittest.main()
