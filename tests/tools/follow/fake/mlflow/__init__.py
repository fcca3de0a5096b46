# SPDX-License-Identifier: MIT
"""Behaves like mlflow where tools/strata follow depends on it, and keeps runs as files of $FAKE_STORE.

It has the limits of MLflow: names, the length of a request, and parameters that never change. FAKE_KILL=N kills the
process after N metrics, in the middle of a request. With FAKE_BLOCK a request takes for ever."""
import json
import math
import os
import re
import signal
import time
from types import SimpleNamespace

from mlflow.entities import Metric

STORE = os.environ["FAKE_STORE"]


class MlflowException(Exception):
    pass


class MlflowClient:
    def __init__(self):
        self.taken = 0

    def get_experiment_by_name(self, name):
        path = os.path.join(STORE, name + ".experiment")
        return SimpleNamespace(experiment_id=name) if os.path.exists(path) else None

    def create_experiment(self, name):
        if name == os.environ.get("FAKE_REFUSED"):
            raise MlflowException(f"{name} is no name")
        append(os.path.join(STORE, name + ".experiment"), {})
        return name

    def create_run(self, experiment, run_name):
        identity = f"{experiment}.{len([name for name in os.listdir(STORE) if name.endswith('.run')])}.run"
        append(os.path.join(STORE, identity), {"name": run_name})
        return SimpleNamespace(info=SimpleNamespace(run_id=identity))

    def update_run(self, run, status):
        self.write(run, {"status": status})

    def set_terminated(self, run, status):
        self.write(run, {"status": status})

    def set_tag(self, run, key, value):
        self.write(run, {"tag": key, "value": value})

    def get_run(self, run):
        return SimpleNamespace(data=SimpleNamespace(params={row["param"]: row["value"] for row in self.rows(run) if "param" in row}))

    def get_metric_history(self, run, key):
        return [Metric(row["key"], float(row["value"]), row["time"], row["step"]) for row in self.rows(run) if row.get("key") == key]

    def log_batch(self, run, metrics=(), params=()):
        if "FAKE_ERROR" in os.environ:
            raise MlflowException(os.environ["FAKE_ERROR"])
        if "FAKE_BLOCK" in os.environ:
            print("blocked", flush=True)
            time.sleep(600)
        if len(metrics) > 1000 or len(params) > 100:
            raise MlflowException("a request is too long")
        for each in (*metrics, *params):
            if not re.fullmatch(r"[\w.\- /]{1,250}", each.key) or os.path.normpath(each.key) != each.key or each.key.startswith((".", "/")):
                raise MlflowException(f"{each.key} is no name")
        for param in params:
            if type(param.value) is not str or self.get_run(run).data.params.get(param.key, param.value) != param.value:
                raise MlflowException(f"{param.key} has another value already")
            self.write(run, {"param": param.key, "value": param.value})
        for metric in metrics:
            if self.taken == int(os.environ.get("FAKE_KILL", "-1")):
                os.kill(os.getpid(), signal.SIGKILL)
            self.taken += 1
            self.write(run, {"key": metric.key, "value": metric.value if math.isfinite(metric.value) else str(metric.value), "time": metric.timestamp,
                             "step": metric.step})  # fmt: skip

    def rows(self, run):
        with open(os.path.join(STORE, run), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def write(self, run, row):
        if not os.path.exists(os.path.join(STORE, run)):
            raise MlflowException(f"there is no run {run}")
        append(os.path.join(STORE, run), row)


def append(path, row):
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
