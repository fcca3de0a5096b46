# SPDX-License-Identifier: MIT
"""Sends lines of a run by a client, and keeps the place in the run's folder."""
import contextlib
import hashlib
import os
import re
import sys
import time

from bad_input import printable, stop
from run_folder import configuration_of
from values import clean, scalar_of, values_of

CLIENTS = ("wandb", "mlflow")
SECRET = re.compile("KEY|TOKEN|SECRET|PASS|CREDENTIAL", re.IGNORECASE)


def client_of(target):
    try:
        if target == "wandb":
            from wandb_client import Wandb as Client
        else:
            from mlflow_client import Mlflow as Client
    except ModuleNotFoundError as missing:
        stop(f"the Python package {missing.name} is not installed for {sys.executable}; get it with: {sys.executable} -m pip install "
             f"{target}, or name in STRATA_PYTHON the Python that has it", 2)  # fmt: skip
    return Client()


def redacted(text):
    """Takes out what the message of a client may quote: values of variables that hold secrets, and passwords in addresses."""
    for name, value in os.environ.items():
        if SECRET.search(name) and len(value) > 3:
            text = text.replace(value, "...")
    return " ".join(re.sub(r"//[^/\s]*@", "//...@", text).split())[:500]


class Sender:
    def __init__(self, folder, target, project, place):
        self.folder, self.target, self.place = folder, target, place
        there = place.kept["project"]
        wanted = project or there or "strata"
        if wanted != there:
            if place.kept["time"] or place.kept["row"]:
                stop(f"--project {project}: {folder} goes to {there} already; leave it out, or remove {place.path} to send the whole run again", 2)
            place.begin_another_run(wanted)
        with self.failures():
            self.client = client_of(target)

    @contextlib.contextmanager
    def failures(self):
        try:
            yield
        except Exception as failure:  # of any type: clients raise what lies below them
            stop(f"{self.target} failed: {type(failure).__name__}: {redacted(str(failure))}; the same command goes on from there", 7)

    def open(self):
        """Opens the run of the client, which is made at the first time."""
        project, name = self.place.kept["project"], printable(os.path.basename(os.path.abspath(self.folder))).encode(errors="replace").decode()
        with self.failures():
            run = self.place.kept["run"] or self.client.create(project, name)
        self.place.write(run=run, status="")
        with self.failures():
            rows = self.client.open(project, run, name)
        if rows is not None:
            self.place.go_to_row(rows)
        print(printable(f"{self.folder} goes to {self.target}: project {project}, run {run}"), flush=True)

    def configure(self, text):
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        if digest != self.place.kept["configuration"]:
            with self.failures():
                self.client.configure({clean(key): scalar_of(value) for key, (value, _) in configuration_of(text).items()})
            self.place.write(configuration=digest)

    def send(self, rows):
        """Writes down the time first: if a crash cuts off the rest, the client looks which lines with this time have arrived."""
        is_repeated = self.place.kept["time"] > 0
        self.place.begin_sending(self.place.kept["time"] or time.time_ns() // 1_000_000)
        with self.failures():
            self.client.send([(row, record["step"], values) for row, record in rows if (values := values_of(record))], self.place.kept["time"], is_repeated)
        self.place.advance()

    def close(self, status):
        with self.failures():
            self.client.finish(status)
        self.place.write(status=status)
