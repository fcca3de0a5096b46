# SPDX-License-Identifier: MIT
"""Behaves like wandb where tools/strata follow depends on it, and keeps runs as files of $FAKE_STORE.

A row whose step is not above that of the row before is left out. With WANDB_MODE=offline a run does not know its rows.
FAKE_KILL=N kills the process before it takes its row N, and the last FAKE_LOST rows have not arrived then."""
import json
import math
import os
import signal

STORE = os.environ["FAKE_STORE"]


class Settings:
    def __init__(self, console, save_code, disable_git):
        assert (console, save_code, disable_git) == ("off", False, True)


class Config:
    def __init__(self, path):
        self.path = path

    def update(self, values, allow_val_change=False):
        there = rows_of(self.path)[-1] if os.path.exists(self.path) else {}
        assert allow_val_change or all(there.get(name, value) == value for name, value in values.items())
        append(self.path, {**there, **values})


class Run:
    def __init__(self, project, identity, name):
        self.path = os.path.join(STORE, f"{project}.{identity}")
        there = rows_of(self.path)
        self.resumed = os.path.exists(self.path) and os.environ.get("WANDB_MODE") != "offline"
        self.last = max((row["_step"] for row in there), default=-1) if self.resumed else -1
        self.config, self.waiting, self.taken = Config(self.path + ".config"), [], 0
        with open(self.path, "a", encoding="utf-8"):
            pass  # a run is there before its first row
        append(self.path + ".calls", {"init": name})

    @property
    def step(self):
        return self.last + 1

    def define_metric(self, name, step_metric=None):
        append(self.path + ".calls", {"define_metric": [name, step_metric]})

    def log(self, data, step=None, commit=None):
        if self.taken == int(os.environ.get("FAKE_KILL", "-1")):
            os.kill(os.getpid(), signal.SIGKILL)
        if "FAKE_ERROR" in os.environ:
            raise RuntimeError(os.environ["FAKE_ERROR"])
        self.taken += 1
        assert commit is True and all(type(value) in (int, float) and not name.startswith("_") for name, value in data.items()), data
        if step <= self.last:
            append(self.path + ".calls", {"left out": step})
            return
        self.last = step
        self.waiting.append({"_step": step, **data})
        self.write(int(os.environ.get("FAKE_LOST", "0")))

    def write(self, most):
        while len(self.waiting) > most:
            append(self.path, self.waiting.pop(0))

    def finish(self, exit_code=None):
        self.write(0)
        append(self.path + ".calls", {"finish": exit_code})


def init(project, id, name, resume, settings):
    assert resume == "allow" and isinstance(settings, Settings)
    facts = {name: os.environ.get("WANDB_X_" + name) for name in ("DISABLE_STATS", "DISABLE_META", "SAVE_REQUIREMENTS")}
    assert facts == {"DISABLE_STATS": "true", "DISABLE_META": "true", "SAVE_REQUIREMENTS": "false"}, facts
    name.encode()  # the client sends UTF-8
    if project == os.environ.get("FAKE_REFUSED"):
        raise RuntimeError(f"{project} is no name")
    return Run(project, id, name)


def append(path, value):
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps({key: str(each) if isinstance(each, float) and not math.isfinite(each) else each for key, each in value.items()}) + "\n")


def rows_of(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]
