# SPDX-License-Identifier: MIT
"""What the folder of a run says about the run. Files that are missing leave their part empty; nothing is made up."""
import array
import bisect
import glob
import math
import os
import re
import struct

from bad_input import BadInput
from checked_values import is_finite, object_of
from growing_file import GrowingFile, lines_of
from profile_rows import profiles_of
from samples import places_of

LARGEST_TEXT = 1 << 20  # letters of a text file that is shown whole
LEDGER_RECORD = struct.Struct("<IHHq24s")  # trainer/ledger/ledger.cc: checksum, kind, used bytes, step, content
LINES_AT_ONCE = 10_000
START, MORE = 1, 2  # kinds of records: the facts of a start, and more of them


class Steps:
    """The records of steps as columns. A repeated step replaces the one before and all after it, as a resumed run
    does. Null, NaN and infinite values, and those that a step lacks, are NaN."""

    def __init__(self):
        self.steps, self.columns, self.replaced = array.array("q"), {}, 0

    def add(self, record):
        """Returns whether the step, or one after it, was there before."""
        step = record["step"]
        repeats = bool(self.steps) and step <= self.steps[-1]
        if repeats:
            kept = bisect.bisect_left(self.steps, step)
            self.replaced += len(self.steps) - kept
            for column in (self.steps, *self.columns.values()):
                del column[kept:]
        self.steps.append(step)
        for name, value in record.items():
            if name == "phases" and isinstance(value, dict):
                for phase, milliseconds in value.items():
                    self.put(("phases", phase), milliseconds)
            elif name != "step" and name != "skipped":
                self.put(name, value)
        for column in self.columns.values():
            if len(column) < len(self.steps):
                column.append(math.nan)
        return repeats

    def put(self, name, value):
        column = self.columns.get(name)
        if column is None:
            column = self.columns[name] = array.array("d", [math.nan]) * (len(self.steps) - 1)
        column.append(value if is_finite(value) else math.nan)

    def phases(self):
        """Returns the phases that have a time in some step."""
        return [name[1] for name, column in self.columns.items() if isinstance(name, tuple) and not all(map(math.isnan, column))]

    def rate(self):
        """Returns the name of the column tokens_per_second, images_per_second and so on, or None."""
        return next((name for name in self.columns if isinstance(name, str) and name.endswith("_per_second")), None)


class Run:
    """`events` are (step, kind, what metrics.jsonl says); `starts` are (step before the first one, facts) each time that the
    facts changed; `resumes` are the steps that the run resumed from; `configuration` is {key: (value, origin)}. A run that is
    watched leaves a line without its end for the next read."""

    def __init__(self, folder, watched=False):
        self.folder, self.name = folder, os.path.normpath(folder)
        self.steps, self.evaluations, self.events, self.notes = Steps(), {}, [], []
        self.resumes, self.begin = [], None  # begin: what the next step may begin after: a step, "rollback" or None
        self.lines, self.metrics = 0, GrowingFile(self.path("metrics.jsonl"))
        check_is_run(folder)
        if watched:
            self.read_new_metrics()
        elif os.path.isfile(self.path("metrics.jsonl")):
            with open(self.path("metrics.jsonl"), "rb") as file:
                for line, _ in lines_of(file):
                    self.add_line(line)
        self.read_errors()
        self.read_other_files()

    def read_other_files(self):
        self.configuration = configuration_of(self.text("resolved.yaml"))
        self.kernels, self.memory = self.text("kernels.txt"), memory_of(self.text("memory.txt"))
        self.profile, self.profiles = self.text("profile/rank-0.txt"), profiles_of(self.folder)
        self.starts, self.samples = starts_of(self.path("ledger/rank-0")), places_of(self.folder)

    def read_errors(self):
        kept = sorted(glob.glob(glob.escape(self.folder) + "/error-*.json"), key=number_of)
        names = [*map(os.path.basename, kept), "error.json"]
        self.errors = [(name, self.error(name)) for name in names if os.path.isfile(self.path(name))]

    def path(self, name):
        return os.path.join(self.folder, name)

    def text(self, name):
        return text_of(self.folder, name)

    def error(self, name):
        """Returns the members of a report of a failure, or its text if it is not a JSON object."""
        text = self.text(name)
        return object_of(text) or {"message": text}

    def read_new_metrics(self):
        """Returns whether there were new lines, and None if a resumed run has cut off what was read before."""
        before = self.lines
        while lines := self.metrics.new_lines(LINES_AT_ONCE):
            for line, _ in lines:
                self.add_line(line)
        return None if lines is None else self.lines > before

    def add_line(self, line):
        self.lines += 1
        text = line.decode(errors="replace")
        record = object_of(text)
        if record and type(record.get("step")) is int and abs(record["step"]) < 1 << 53:  # True is an int too
            self.add_record(record)
        elif text.strip():
            whole = "is not a record" if text.endswith("\n") else "is cut off"
            self.notes.append(f"Line {self.lines} of metrics.jsonl {whole} and is left out.")

    def last_step(self):
        return self.steps.steps[-1] if self.steps.steps else 0

    def add_record(self, record):
        step = record["step"]
        # A run that resumes from step N says once more that checkpoint N is on the disk, and then takes step N + 1. Other
        # lines with the same step and checkpoint come at the end of a run. A rollback has a line of its own before.
        if "rollback" in record:
            self.begin = "rollback"
        elif "checkpoint" in record and self.begin != "rollback":
            self.begin = step if record["checkpoint"] == step else None
        if "loss" in record:
            if isinstance(self.begin, int) and step > self.begin:
                self.resumes.append(self.begin)
            self.begin = None
            if self.steps.add(record):
                self.evaluations = {at: values for at, values in self.evaluations.items() if at < step}
            for name in ("loss", "gradient_norm"):
                if name in record and not is_finite(record[name]):
                    self.events.append((step, "not finite", name))
            if record.get("skipped"):
                self.events.append((step, "skipped", "the update was left out"))
        elif "validation_loss" in record:
            self.evaluations[step] = {name: value for name, value in record.items() if name != "step"}
        else:
            self.events += [(step, name, value) for name, value in record.items() if name != "step"]


def check_is_run(folder):
    if not any(os.path.isfile(os.path.join(folder, name)) for name in ("metrics.jsonl", "resolved.yaml")):
        raise BadInput(f"{folder}: expected the folder of a run, with resolved.yaml or metrics.jsonl; it has neither")


def text_of(folder, name):
    """Returns the beginning of a text file, or "" if there is none."""
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
        return ""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(LARGEST_TEXT + 1)
    except FileNotFoundError:  # a run that is started again has just given it another name
        return ""
    return text if len(text) <= LARGEST_TEXT else text[:LARGEST_TEXT] + f"\n... the rest is in {name}"


def number_of(path):
    found = re.search(r"error-(\d+)\.json$", path)
    return int(found.group(1)) if found else 0


def configuration_of(text):
    """Returns {path: (value, origin)} of a resolved.yaml as configs/listing.cc writes it: nested keys, and elements
    of lists that begin with a dash."""
    found, elements, open_keys = {}, {}, []  # open_keys: (indentation, path) of sections around a line
    for line in text.splitlines():
        content = line.lstrip(" ")
        indentation = len(line) - len(content)
        while open_keys and open_keys[-1][0] >= indentation:
            open_keys.pop()
        if content.startswith("- "):
            around = open_keys[-1][1] if open_keys else ""
            elements[around] = elements.get(around, -1) + 1
            open_keys.append((indentation, f"{around}.{elements[around]}"))
            content, indentation = content[2:], indentation + 2
        key, colon, rest = content.partition(":")
        if not colon:
            continue
        path = f"{open_keys[-1][1]}.{key}" if open_keys else key
        if rest.strip():
            value, _, origin = rest.strip().rpartition("  # ")
            found[path] = (value, origin) if value else (origin, "")
        else:
            open_keys.append((indentation, path))
    return found


def memory_of(text):
    """Returns (class, bytes) of each line of a memory.txt as trainer/prediction/peak_memory.cc writes it."""
    rows = [line.rsplit(None, 3) for line in text.splitlines() if line.startswith("  ") and line.endswith(" MiB")]
    counts = [(row[0].strip(), row[1].replace(",", "")) for row in rows if len(row) == 4]
    return [(name, int(count)) for name, count in counts if re.fullmatch("[0-9]{1,19}", count)]


def starts_of(path):
    """Returns the starts in a ledger: (step before the first one, {fact: value}). Only its last record can be torn."""
    if not os.path.isfile(path):
        return []
    starts = []
    with open(path, "rb") as file:
        while len(record := file.read(LEDGER_RECORD.size)) == LEDGER_RECORD.size:
            _, kind, used, step, content = LEDGER_RECORD.unpack(record)
            if kind == START:
                starts.append((step, bytearray(content[:used])))
            elif kind == MORE and starts:
                starts[-1][1].extend(content[:used])
    return [(step, facts_of(facts.decode(errors="replace"))) for step, facts in starts]


def facts_of(text):
    lines = [line.partition("\t") for line in text.split("\n") if "\t" in line]
    return {name: value for name, _, value in lines}
