# SPDX-License-Identifier: MIT
"""Names and values of a run become text of the page, whatever is in them."""
import json
import os
import shutil
import unittest

from report_runs import ReportRuns, ledger, step_record

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
        names = [text for text in HOSTILE if "\0" not in text]
        page = self.report(*[self.run_folder(f"{i}{name}", [step_record(1)]) for i, name in enumerate(names)])
        self.assertEqual(page.data["runs"], [os.path.normpath(os.path.join(self.folder, f"{i}{name}")) for i, name in enumerate(names)])
        raw = os.fsencode(self.folder) + b"/\xff\xfe<b>"
        os.mkdir(raw)
        with open(raw + b"/metrics.jsonl", "wb") as file:
            file.write(json.dumps(step_record(1)).encode() + b'\n{"step":1,"bad_sample":"\xff"}\n')
        self.assertIn("\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}<b>", self.report(raw).parts["h1"][0])


if __name__ == "__main__":
    unittest.main()
