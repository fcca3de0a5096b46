# SPDX-License-Identifier: MIT
"""Names and values of a run become text of the page, whatever is in them, and no file of a run ends the command."""
import json
import os
import shutil
import sys
import unittest

sys.path.insert(0, "tools/report")
from markup import shown  # noqa: E402
from report_runs import ReportRuns, ledger, step_record  # noqa: E402

HOSTILE = ["</script><script>alert(1)</script>", "<!--", "<img src=x onerror=alert(1)>", "\"'><b>", "{{data}}{{style}}", "\u202eedoc",
           "雪 é \U0001f600", "\u2028&lt;", "]]>", "</title></style></td></table>", "\\u003c\\", "a\0b\x1b[31m\x85",
           "http" + "://evil.example/x.js"]  # fmt: skip


def as_shown(text):
    return "".join("\N{REPLACEMENT CHARACTER}" if letter in "\0\x1b\x85" else letter for letter in text)


class HostileRunTest(ReportRuns):
    def test_values_and_names(self):
        for text in HOSTILE:
            with self.subTest(text):
                shutil.rmtree(os.path.join(self.folder, "run"), ignore_errors=True)
                line = text.replace("\0", "").replace("\u2028", "").replace("\x85", "")
                records = [step_record(step, **{text: 1.5}, phases={text: 1.0, "data": 2.0}) for step in (1, 2)]
                records += [{"step": 2, "validation_loss": 1.0, text: text}, {"step": 2, "bad_sample": text}, {"step": 2, text: {text: text}},
                            {"step": 2, "straggler": {"rank": 1, "phase": text}}, {"step": 2, "save": {"milliseconds": text}}]  # fmt: skip
                files = {"resolved_yaml": f"key: {line}  # {line}\n", "kernels_txt": text, "memory_txt": f"  {line}   12 1.00 MiB\n",
                         "error_json": json.dumps({"message": text, text: text}), "profile__rank-0_txt": text,
                         "ledger__rank-0": ledger((0, {"device": line}))}  # fmt: skip
                page = self.report(self.run_folder("run", records, **files))
                self.assertEqual(page.table("step", "validation_loss", as_shown(text)), [["2", "1.0", as_shown(text)]])
                self.assertIn(["2", "bad_sample", as_shown(text)], page.table("step", "what", "more"))
                self.assertIn(["message", as_shown(text)], page.table("error.json", ""))
                self.assertIn(["device", as_shown(line)], page.table("", "from step 1"))
                self.assertEqual(page.chart("phases-0")["stack"], [text, "data"])
                self.assertEqual(page.parts["pre"], [as_shown(text)] * 2)

    def test_names_of_folders(self):
        names = [*(text for text in HOSTILE if "\0" not in text), "two\nlines", "`code`", " "]
        page = self.report(*[self.run_folder(f"{i}{name}", [step_record(1)]) for i, name in enumerate(names)])
        self.assertEqual(page.data["runs"], [os.path.normpath(os.path.join(self.folder, f"{i}{name}")) for i, name in enumerate(names)])
        raw = os.fsencode(self.folder) + b"/\xff\xfe<b>"
        os.mkdir(raw)
        with open(raw + b"/metrics.jsonl", "wb") as file:
            file.write(json.dumps(step_record(1)).encode() + b'\n{"step":1,"bad_sample":"\xff"}\n')
        self.assertIn("\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}<b>", self.report(raw).parts["h1"][0])
        page = self.report(self.run_folder("a; b", [step_record(1)]))
        self.assertIn(f"tools/strata validate '{self.folder}/a; b/resolved.yaml' prints it", page.text())

    def test_deep_values(self):
        page = self.report(self.run_folder("a", [step_record(1)], error_json="[" * 20_000))
        self.assertEqual(page.table("error.json", ""), [["message", "[" * 20_000]])
        value = []
        for _ in range(100_000):
            value = [value]
        self.assertEqual(shown(value), "a value in more brackets than can be shown")

    def test_long_lines(self):
        long = ['{"step": 2, "loss": "' + "x" * 3_000_000 + '"}\n', "y" * 3_000_000]
        page = self.report(self.run_folder("a", [step_record(1), long[0], step_record(3), long[1]]))
        self.assertEqual(page.chart("loss")["rows"], [[1, 2.5], [3, 2.5]])
        self.assertIn("Line 2 of metrics.jsonl is not a record and is left out.", page.text())
        self.assertIn("Line 4 of metrics.jsonl is cut off and is left out.", page.text())

    def test_large_and_missing_numbers(self):
        records = [step_record(step, loss=1.7e308 / step, phases={"data": 1.7e308, "forward": None}) for step in range(1, 5000)]
        page = self.report(self.run_folder("a", records))
        width = page.data["width"]
        self.assertEqual(page.chart("loss")["rows"][0], [1, [float(f"{value:.7g}") for value in (1.7e308 / width, sum(1.7e308 / step / width
                                                             for step in range(1, width + 1)), 1.7e308)]])  # fmt: skip
        self.assertEqual(page.chart("phases-0")["stack"], ["data"])
        page = self.report(self.run_folder("b", [{"step": step, "loss": 1, "phases": {"data": 1}, "images_per_second": None} for step in (1, 2)]))
        self.assertEqual(page.table("run", "steps", "last loss", "best validation loss", "median rate", "state")[0][4], "")
        page = self.report(self.run_folder("c", ['{"step": true, "loss": 1}\n', step_record(1, phases={"data": None})]))
        self.assertEqual([row[0] for row in page.chart("loss")["rows"]], [1])
        self.assertIn("Line 1 of metrics.jsonl is not a record", page.text())
        self.assertIn("No phases", page.text())

    def test_predictions_that_are_none(self):
        lines = [f"  class {digits} 1.00 MiB" for digits in ("12", ",", "9" * 400, "9" * 5000)] + [" " * 200_000 + "x", "  1 1.00 MiB"]
        page = self.report(self.run_folder("a", [step_record(1)], memory_txt="\n".join(lines)))
        self.assertEqual(page.table("predicted for a rank", "bytes", "MiB")[:-1], [["class", "12", "0.00"]])

    def test_devices_and_links(self):
        folder = self.run_folder("a", resolved_yaml="steps: 1  # default\n")
        os.mkfifo(folder + "/metrics.jsonl")  # a read would wait for ever
        os.symlink("/dev/zero", folder + "/memory.txt")
        os.symlink("/dev/zero", folder + "/error.json")
        os.mkdir(folder + "/kernels.txt")
        page = self.report(folder)
        for words in ("No step was recorded", "No prediction", "No levels"):
            self.assertIn(words, page.text())


if __name__ == "__main__":
    unittest.main()
