# SPDX-License-Identifier: MIT
"""Folders of runs with made-up records, and the pages of the report of them."""
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import unittest

from parsed_page import Page

REPORT = os.path.abspath("tools/report/report.py")
PHASES = ("data", "forward", "backward", "communication", "optimizer", "evaluation", "checkpoint", "report")
RESOLVED = """run:
  folder: runs/a  # a.yaml:1
  ranks: 2  # default
steps: 50  # a.yaml:2
layers: []  # default
data:
  train: "a: b  # c"  # override
kernels:
  default: aten  # default
  layers:
    - only: 0  # a.yaml:7
      linear: cuda  # a.yaml:7
    - only: 1-3  # a.yaml:8
      linear: triton  # a.yaml:8
  modules: []  # default
"""
VALUES = [("run.folder", "runs/a", "a.yaml:1"), ("run.ranks", "2", "default"), ("steps", "50", "a.yaml:2"), ("layers", "[]", "default"),
          ("data.train", '"a: b  # c"', "override"), ("kernels.default", "aten", "default"), ("kernels.layers.0.only", "0", "a.yaml:7"),
          ("kernels.layers.0.linear", "cuda", "a.yaml:7"), ("kernels.layers.1.only", "1-3", "a.yaml:8"),
          ("kernels.layers.1.linear", "triton", "a.yaml:8"), ("kernels.modules", "[]", "default")]  # fmt: skip
MEMORY = f"  {'master parameters':<46} {'3,407,872':>18} {3.25:12.2f} MiB\n  {'most at once':<46} {'12,345,678':>18} {11.77:12.2f} MiB\n"


def step_record(step, loss=2.5, **more):
    """Returns a record of a step as trainer/report/metrics.cc writes it."""
    return {"step": step, "loss": loss, "learning_rate": 1e-3 / step, "gradient_norm": 1 + 1 / step, "tokens_per_second": 20000.25 + step,
            "model_teraflops_per_rank": 0.02, "milliseconds": 80.0, "memory_bytes": 460144640 + step,
            "phases": {name: float(i) for i, name in enumerate(PHASES)}, **more}  # fmt: skip


def ledger(*starts):
    """Returns a ledger with these starts, (step before the first one, facts), each followed by the record of a step."""
    records = b""
    for after, facts in starts:
        text = "".join(f"{name}\t{value}\n" for name, value in facts.items()).encode()
        for i in range(0, len(text), 24):
            part = text[i:i + 24]
            records += struct.pack("<IHHq24s", 7, 1 if i == 0 else 2, len(part), after, part)
        records += struct.pack("<IHHq24s", 7, 3, 24, after + 1, b"\1" * 24)
    return records


class ReportRuns(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def run_folder(self, name, records=(), **files):
        """Writes the folder of a run. `files` are texts or bytes; __ stands for / and _x for .x in their names."""
        folder = os.path.join(self.folder, name)
        os.makedirs(folder)
        lines = "".join(record if isinstance(record, str) else json.dumps(record) + "\n" for record in records)
        for path, content in {**({"metrics_jsonl": lines} if lines else {}), **files}.items():
            path = path.replace("__", "/")
            for ending in ("jsonl", "yaml", "json", "txt"):
                path = path[:-len(ending) - 1] + "." + ending if path.endswith("_" + ending) else path
            path = os.path.join(folder, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content if isinstance(content, bytes) else content.encode())
        return folder

    def start_report(self, *arguments):
        """Returns the exit code of the command, and sets `said` and the `seconds` of processor time."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, "-B", REPORT, *arguments], capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.said = done.stdout + done.stderr
        return done.returncode

    def report(self, *arguments, expect=0):
        """Returns the page, which must be free of complaints."""
        path = os.path.join(self.folder, "page.html")
        self.assertEqual(self.start_report(*arguments, "--output", path), expect, self.said)
        if expect:
            self.assertFalse(os.path.exists(path))
            return None
        with open(path, encoding="utf-8", newline="") as file:
            page = Page(file.read())
        self.assertEqual(page.complaints, [])
        return page
