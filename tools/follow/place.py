# SPDX-License-Identifier: MIT
"""How far a run has been sent: RUN/follow-wandb.json or RUN/follow-mlflow.json, which is replaced as a whole."""
import fcntl
import json
import os

from bad_input import BadInput, stop
from checked_values import object_of
from growing_file import GrowingFile, mark_at
from whole_file import replace_file

MOST_SAVES = 1000
BLANK = {
    "project": "",        # of W&B, or experiment of MLflow
    "run": "",            # its identity there
    "status": "",         # the last that was reported
    "configuration": "",  # a hash of the resolved.yaml that was sent last
    "place": 0,           # the byte of metrics.jsonl after the last line that was sent
    "mark": "",           # a hash of the bytes before it
    "row": 0,             # the number of the next line; it goes on where metrics.jsonl was cut back
    "base": [0, 0],       # a row and its place: the rows after it are the lines after it
    "time": 0,            # the time that lines are being sent with, in milliseconds since 1970; 0: none are
    "sending": [0, ""],   # the place after the lines that are sent with that time, and its mark
    "step": 0,            # of the last line
    "saved": False,       # whether that step was saved
    "saves": [],          # [place, mark] after each saved step: metrics.jsonl is cut there if the run resumes from it
}


def is_written_here(found):
    """Returns whether members of a file have the types of BLANK, and places of a file."""
    if {name: type(value) for name, value in found.items()} != {name: type(value) for name, value in BLANK.items()}:
        return False
    pairs = [*found["saves"], found["sending"]]
    if not all(isinstance(pair, list) and list(map(type, pair)) == [int, str] for pair in pairs) or list(map(type, found["base"])) != [int, int]:
        return False
    counts = [*(place for place, _ in pairs), *found["base"], *(found[name] for name in ("place", "row", "time"))]
    return all(0 <= count < 1 << 63 for count in counts)


class Place:
    """`kept` is what the file has. Only one process at a time may have the place of a run."""

    def __init__(self, folder, target):
        self.path, self.metrics = os.path.join(folder, f"follow-{target}.json"), os.path.join(folder, "metrics.jsonl")
        self.lock = os.open(os.path.join(folder, f".follow-{target}.lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stop(f"another process sends {folder} to {target}, and two would send each line twice; end it first", 2)
        except OSError:
            pass  # a file system without locks
        self.kept, self.next = self.read() if os.path.lexists(self.path) else dict(BLANK), {}

    def read(self):
        found = {}
        if os.path.isfile(self.path):  # a read of a pipe would wait for ever
            with open(self.path, encoding="utf-8", errors="replace") as file:
                found = object_of(file.read(1 << 20)) or {}
        if not is_written_here(found):
            raise BadInput(f"{self.path}: expected what `tools/strata follow` has written; without the file it sends the whole run to a new place")
        return found

    def write(self, **changes):
        """The old or the new file exists at any time, also after a crash."""
        self.kept = {**self.kept, **changes}
        replace_file(self.path, json.dumps(self.kept))

    def new_rows(self, most):
        """Returns the next lines as (row, record), or None if a resumed run has cut off what was sent. `advance` keeps the place after
        them."""
        place = self.kept["place"]
        file = GrowingFile(self.metrics, place, self.kept["mark"] or None)
        lines = file.new_lines(most)
        if lines is None:
            return None
        rows, after = [], {name: self.kept[name] for name in ("row", "step", "saved", "saves")}
        for line, end in lines:
            record = object_of(line.decode(errors="replace")) or {}
            step = record.get("step")
            if type(step) is int:
                if step > after["step"] and after["saved"] and place > max((save for save, _ in after["saves"]), default=0):
                    if mark := self.mark(place):
                        after["saves"] = [*after["saves"][1 - MOST_SAVES:], [place, mark]]
                after["saved"] = "save" in record or (after["saved"] and step == after["step"])
                after["step"] = step
            rows.append((after["row"], record))
            after["row"], place = after["row"] + 1, end
        self.next = {**after, "place": file.place, "mark": file.mark or "", "time": 0}
        return rows

    def begin_sending(self, time):
        """Keeps which rows of `new_rows` are about to be sent. `advance` says that they are."""
        self.write(time=time, sending=[self.next["place"], self.next["mark"]])

    def advance(self):
        self.write(**self.next)

    def mark(self, place):
        """Returns "" if metrics.jsonl does not reach so far."""
        if not os.path.isfile(self.metrics):
            return ""
        with open(self.metrics, "rb") as file:
            return mark_at(file, place) or ""

    def go_back_to_save(self):
        """Goes to the newest saved step that metrics.jsonl still has. Returns False if it has none: another run has begun."""
        saves = [[place, mark] for place, mark in self.kept["saves"] if mark and self.mark(place) == mark]
        place, mark = saves[-1] if saves else (0, "")
        self.write(place=place, mark=mark, base=[self.kept["row"], place], saves=saves, saved=False)
        return bool(saves)

    def begin_another_run(self, project):
        self.write(**{**BLANK, "project": project})

    def go_to_row(self, row):
        """Goes to the first row that the other side lacks. After a crash it may have more or fewer rows than were written down."""
        row, place = max(row, self.kept["base"][0]), self.kept["place"]
        if place > 0 and self.mark(place) != self.kept["mark"]:  # new_rows will say that metrics.jsonl was cut back
            self.write(row=max(row, self.kept["row"]))
            return
        sent_to, mark = self.kept["sending"]
        if row > self.kept["row"] and self.mark(sent_to) != mark:  # some of the lines that arrived were cut off: all of them are sent again
            self.write(row=row, base=[row, place])
            return
        first, place = self.kept["base"]
        file = GrowingFile(self.metrics, place)
        while row > first and (lines := file.new_lines(row - first)):
            first += len(lines)
        self.write(row=row, place=file.place, mark=self.mark(file.place), base=[row, file.place])
