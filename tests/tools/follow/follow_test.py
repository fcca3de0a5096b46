# SPDX-License-Identifier: MIT
"""follow sends each line once, also if it is stopped, killed, or the run is resumed. Small modules behave like the clients."""
import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

FOLLOW, FAKE = os.path.abspath("tools/follow/main.py"), os.path.abspath("tests/tools/follow/fake")
CLIENTS = ("wandb", "mlflow")
SECONDS = 60
RESOLVED = """run:
  ranks: 2  # default
steps: 400  # a.yaml:1
optimizer:
  betas: [0.9, 0.95]  # default
  learning_rate: 4e-3  # override
data:
  train: "a: b  # c"  # a.yaml:2
"""
CONFIGURATION = {"run.ranks": 2, "steps": 400, "optimizer.betas": "[0.9, 0.95]", "optimizer.learning_rate": 0.004, "data.train": "a: b  # c"}


def step_line(step, loss=2.5):
    return {"step": step, "loss": loss, "milliseconds": 80 + step / 7, "phases": {"data": 0.5}}


def lines_of(*steps, saved_every=0):
    """Returns lines as a run writes them: with a save, and later the news that it is on the disk."""
    lines = []
    for step in steps:
        lines.append(step_line(step))
        if saved_every and step % saved_every == 0:
            lines.append({"step": step, "validation_loss": step / 3})
            lines.append({"step": step, "save": {"milliseconds": 1.0, "waited_milliseconds": 0}})
        if saved_every and step % saved_every == 1 and step > 1:
            lines += [{"step": step, "weights_sha256": "a"}, {"step": step, "checkpoint": step - 1}]
    return lines


def expected_of(lines):
    """Returns the (name, step, value) that the clients should have."""
    return sorted((name, line["step"], value) for line in lines for name, value in {**line, "phases/data": line.get("phases", {}).get("data")}.items()
                  if ("loss" in line or "validation_loss" in line) and name not in ("step", "phases") and value is not None)  # fmt: skip


class FollowTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = os.path.join(self.temporary.name, "some run")
        self.new_store()
        os.mkdir(self.folder)
        self.write("resolved.yaml", RESOLVED)

    def tearDown(self):
        self.temporary.cleanup()

    def new_store(self):
        self.store = tempfile.mkdtemp(dir=self.temporary.name)

    def write(self, name, text, mode="w"):
        with open(os.path.join(self.folder, name), mode, encoding="utf-8") as file:
            file.write(text)

    def append(self, lines):
        self.write("metrics.jsonl", "".join(json.dumps(line) + "\n" for line in lines), "a")

    def start(self, *arguments, before=None, **environment):
        variables = {"PATH": os.environ["PATH"], "PYTHONPATH": FAKE, "FAKE_STORE": self.store, **environment}
        return subprocess.Popen([sys.executable, "-B", FOLLOW, self.folder, *arguments], env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, preexec_fn=before)  # fmt: skip

    def follow(self, client, *arguments, expect=0, **environment):
        process = self.start("--to", client, "--once", *arguments, **environment)
        self.said, _ = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, expect, self.said)
        self.assertNotIn("Traceback", self.said)

    def runs(self, client):
        """Returns the runs of the store, each as its rows."""
        ends = (lambda name: name.endswith(".run")) if client == "mlflow" else (lambda name: not name.endswith((".calls", ".config")))
        names = sorted(filter(ends, os.listdir(self.store)), key=lambda name: os.path.getctime(os.path.join(self.store, name)))
        return [self.rows(name) for name in names]

    def rows(self, name):
        with open(os.path.join(self.store, name), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def calls(self, kind):
        [name] = [name for name in os.listdir(self.store) if name.endswith(".calls")]
        return [row[kind] for row in self.rows(name) if kind in row]

    def received(self, client, run=0):
        """Returns the (name, step, value) that a run has received."""
        rows = self.runs(client)[run]
        if client == "mlflow":
            return sorted((row["key"], row["step"], row["value"]) for row in rows if "key" in row)
        self.assertEqual([row["_step"] for row in rows], sorted({row["_step"] for row in rows}))
        return sorted((name, row["step"], value) for row in rows for name, value in row.items() if name not in ("step", "_step"))

    def test_steps_evaluations_and_configuration(self):
        lines = [{"step": 0, "weights_sha256": "a"}, *lines_of(*range(1, 121), saved_every=50), {"step": 120, "spike": {"value": 3}}]
        self.append(lines)
        for client in CLIENTS:
            self.new_store()
            self.follow(client, "--project", "mine")
            self.assertEqual(self.received(client), expected_of(lines))
            self.assertEqual(len(self.runs(client)), 1)
            self.assertIn("project mine, run ", self.said)
        [first, *_] = self.runs("mlflow")[0]
        self.assertEqual(first, {"name": "some run"})
        self.assertEqual({row["param"]: row["value"] for row in self.runs("mlflow")[0] if "param" in row},
                         {name: str(value) for name, value in CONFIGURATION.items()})  # fmt: skip
        self.assertEqual(len({row["time"] for row in self.runs("mlflow")[0] if "key" in row}), 3, "a time for each 50 lines")

    def test_what_wandb_needs(self):
        self.append(lines_of(1, 2))
        self.follow("wandb")
        self.assertEqual((self.calls("init"), self.calls("finish")), (["some run"], [0]))
        self.assertEqual(self.calls("define_metric"), [["step", None], ["*", "step"]])
        [name] = [name for name in os.listdir(self.store) if name.endswith(".config")]
        self.assertEqual(self.rows(name), [CONFIGURATION])

    def test_it_goes_on_where_it_ended(self):
        lines = lines_of(*range(1, 200), saved_every=20)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        for client in CLIENTS:
            self.new_store()
            for end in (700, 701, 9000, len(text)):  # also within a line
                self.write("metrics.jsonl", text[:end])
                self.follow(client)
            self.assertEqual(self.received(client), expected_of(lines))
            self.follow(client)
            self.assertEqual((self.received(client), self.said), (expected_of(lines), "there are no new lines\n"))
        self.new_store()
        os.remove(self.folder + "/follow-wandb.json")
        for end in (700, 9000, len(text)):
            self.write("metrics.jsonl", text[:end])
            self.follow("wandb", WANDB_MODE="offline")
        self.assertEqual(self.received("wandb"), expected_of(lines))

    def test_kills(self):
        lines = lines_of(*range(1, 150), saved_every=20)
        self.append(lines)
        for client, kill, lost in (*(("wandb", kill, lost) for kill in (0, 1, 49, 50, 77, 120) for lost in (0, 3, 60)),
                                   *(("mlflow", kill, 0) for kill in (0, 1, 3, 160, 161, 333))):  # fmt: skip
            with self.subTest(client=client, kill=kill, lost=lost):
                self.new_store()
                if os.path.exists(f"{self.folder}/follow-{client}.json"):
                    os.remove(f"{self.folder}/follow-{client}.json")
                for after in (kill, 20):
                    self.follow(client, expect=-signal.SIGKILL, FAKE_KILL=str(after), FAKE_LOST=str(lost))
                self.follow(client)
                self.assertEqual(self.received(client), expected_of(lines))
                self.assertEqual(len(self.runs(client)), 1)
                if client == "wandb":
                    self.assertEqual(self.calls("left out"), [])

    def test_a_run_that_is_resumed(self):
        before, kept = lines_of(*range(1, 95), saved_every=20), lines_of(*range(1, 81), saved_every=20)
        after = [{"step": 80, "checkpoint": 80}, *(step_line(step, loss=1.5) for step in range(81, 131))]
        for client in CLIENTS:
            for left_out in (0, 60):  # lines that have not been sent before the resume
                with self.subTest(client=client, left_out=left_out):
                    self.new_store()
                    self.write("metrics.jsonl", "")
                    self.append(before[:len(before) - left_out])
                    self.follow(client)
                    os.remove(self.folder + "/metrics.jsonl")
                    self.append(kept + after)
                    self.write("resolved.yaml", RESOLVED.replace("ranks: 2", "ranks: 4"))
                    self.follow(client)
                    sent = before + after if left_out == 0 else kept + after
                    self.assertEqual(self.received(client), expected_of(sent))
                    os.remove(f"{self.folder}/follow-{client}.json")
                    self.write("resolved.yaml", RESOLVED)
        self.assertEqual([row for row in self.runs("mlflow")[0] if "tag" in row], [{"tag": "resumed.run.ranks", "value": "4"}])

    def test_a_kill_before_a_resume(self):
        """Lines that had arrived with the time of the kill, and that the run has since taken again, are no reason to leave these out."""
        before, kept = lines_of(*range(1, 60), saved_every=20), lines_of(*range(1, 41), saved_every=20)
        after = [step_line(step, loss=1.5) for step in range(41, 80)]
        self.append(before)
        self.follow("mlflow", expect=-signal.SIGKILL, FAKE_KILL="170")
        had = self.received("mlflow")
        os.remove(self.folder + "/metrics.jsonl")
        self.append(kept + after)
        self.follow("mlflow")
        found = self.received("mlflow")
        self.assertEqual(sorted(set(found)), sorted({*had, *expected_of(kept + after)}))
        self.assertEqual([each for each in found if found.count(each) > 1 and each[0] != "phases/data" and each[0] != "milliseconds"], [])

    def test_a_kill_before_a_resume_loses_nothing_of_wandb(self):
        """W&B says how many rows it has. Some of them were lines that the run has since taken again."""
        before, kept = lines_of(*range(1, 31), saved_every=20), lines_of(*range(1, 21), saved_every=20)
        after = [step_line(step, loss=1.5) for step in range(21, 61)]
        for lines in (kept, kept + after):  # the run may have gone on already, or not yet
            self.new_store()
            self.write("metrics.jsonl", "")
            self.append(before)
            self.follow("wandb", expect=-signal.SIGKILL, FAKE_KILL="28")
            had = self.received("wandb")
            self.write("metrics.jsonl", "")
            self.append(lines)
            self.follow("wandb")
            self.write("metrics.jsonl", "")
            self.append(kept + after)
            self.follow("wandb")
            self.assertEqual(sorted(set(self.received("wandb"))), sorted({*had, *expected_of(kept + after)}))
            os.remove(self.folder + "/follow-wandb.json")

    def test_a_save_whose_place_is_not_known(self):
        """So it is while metrics.jsonl is cut back: the command finds the file shorter than what it has just read."""
        self.append(lines_of(1, 2))
        for client in CLIENTS:
            self.follow(client)
            with open(f"{self.folder}/follow-{client}.json", "r+", encoding="utf-8") as file:
                kept = json.load(file)
                file.seek(0)
                json.dump({**kept, "place": 1 << 20, "saves": [[1 << 20, ""]]}, file)
                file.truncate()
            self.follow(client)
            self.assertEqual(self.received(client, 1), expected_of(lines_of(1, 2)))
            self.new_store()

    def test_a_project_that_was_refused_can_be_changed(self):
        self.append(lines_of(1))
        for client in CLIENTS:
            self.follow(client, "--project", "not/a project", expect=7, FAKE_REFUSED="not/a project")
            self.follow(client, "--project", "mine")
            self.assertEqual(self.received(client), expected_of(lines_of(1)))
            self.assertIn("project mine, run ", self.said)
            self.follow(client)
            self.assertEqual(self.said, "there are no new lines\n")
            self.new_store()

    def test_a_folder_whose_name_is_not_utf8(self):
        name = os.fsdecode(b"run \xff")
        os.rename(self.folder, os.path.join(self.temporary.name, name))
        self.folder = os.path.join(self.temporary.name, name)
        self.append(lines_of(1))
        for client in CLIENTS:
            self.follow(client)
            self.assertEqual(self.received(client), expected_of(lines_of(1)))
            self.assertIn("run \\udcff goes to", self.said)
            names = self.calls("init") if client == "wandb" else [row["name"] for row in self.runs("mlflow")[0] if "name" in row]
            self.assertEqual(names, ["run ?"])
            self.new_store()

    def test_another_run_in_the_folder(self):
        for client in CLIENTS:
            self.new_store()
            for loss in (1.0, 2.0):
                self.write("metrics.jsonl", "")
                lines = [{"step": 0, "weights_sha256": "a"}, *(step_line(step, loss) for step in range(1, 30 if loss == 1 else 90))]
                self.append(lines)
                self.follow(client)
            self.assertEqual([self.received(client, 0)[0], self.received(client, 1)], [("loss", 1, 1.0), expected_of(lines)])

    def test_numbers_that_are_not_finite_and_hostile_names(self):
        self.write("metrics.jsonl", '{"step": 1, "loss": null, "gradient_norm": NaN, "a": Infinity, "b": -1e999, "c": 1' + "0" * 400 + "}\n"
                   '{"step": 2, "loss": 1, "../../x": 2, "_step": 3, "é\\u0000 $(x)": 4, "": 5, "t": true, "s": "text", "l": [1], "phases": {"../a/b": 6}}\n'
                   '{"step": 3, "validation_loss": 7, "skipped": true}\nnot a line\n[]\n{"step": "4", "loss": 1}\n{"step": true, "loss": 1}\n')  # fmt: skip
        self.write("resolved.yaml", 'run:\n  "../x": 1  # d\n  folder: {"_type": "image-file", "path": "/etc/passwd"}  # d\n')
        names = [("loss", 2, 1), ("phases/a_b", 2, 6), ("unnamed", 2, 5), ("validation_loss", 3, 7), ("x", 2, 4)]
        for client in CLIENTS:
            self.new_store()
            self.follow(client)
            found = self.received(client)
            self.assertEqual([each for each in found if each[1] == 1],
                             [("a", 1, "inf"), ("b", 1, "-inf"), ("c", 1, "inf"), ("gradient_norm", 1, "nan"), ("loss", 1, "nan")])
            self.assertEqual([each for each in found if each[1] > 1], names)
        self.assertIn({"param": "run.folder", "value": '{"_type": "image-file", "path": "/etc/passwd"}'}, self.runs("mlflow")[0])

    def test_until_the_run_is_done(self):
        self.append(lines_of(1, 2))
        self.write("resolved.yaml", RESOLVED.replace("400", "6"))
        for client in CLIENTS:
            self.new_store()
            self.write("metrics.jsonl", "")
            with open(self.folder + "/.lock", "w", encoding="utf-8") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                process = self.start("--to", client, "--every", "0.1")
                self.assertIn("some run goes to", process.stdout.readline())
                other = self.start("--to", client)
                self.assertIn("two would send each line twice", other.communicate(timeout=SECONDS)[0])
                self.assertEqual(other.returncode, 2)
                for step in range(1, 7):
                    self.append([step_line(step)])
                    time.sleep(0.15)
                self.assertIsNone(process.poll())
                self.append([{"step": 6, "validation_loss": 1.0}])
            said, _ = process.communicate(timeout=SECONDS)
            self.assertEqual((process.returncode, said), (0, "7 lines are sent\n"))
            self.assertEqual(self.received(client), expected_of([*map(step_line, range(1, 7)), {"step": 6, "validation_loss": 1.0}]))
        self.assertEqual([row["status"] for row in self.runs("mlflow")[0] if "status" in row], ["RUNNING", "FINISHED"])

    def test_signals_and_failures_of_the_run(self):
        self.append(lines_of(1, 2))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = self.start("--to", "mlflow")
            process.stdout.readline()
            process.send_signal(number)
            process.communicate(timeout=SECONDS)
            self.assertEqual(process.returncode, 0)
        self.write("error.json", '{"code": 5}')
        self.follow("mlflow")
        self.assertEqual([row["status"] for row in self.runs("mlflow")[0] if "status" in row], ["RUNNING"] * 4 + ["FAILED"])
        self.assertEqual(self.received("mlflow"), expected_of(lines_of(1, 2)))

    def test_a_signal_that_is_ignored_stays_ignored(self):
        self.append(lines_of(1))
        process = self.start("--to", "mlflow", "--every", "0.1", before=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        process.stdout.readline()
        process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        self.assertIsNone(process.poll(), "nohup is of no use")
        process.terminate()
        process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, 0)

    def test_a_second_signal_ends_a_client_that_blocks(self):
        self.append(lines_of(1))
        process = self.start("--to", "mlflow", FAKE_BLOCK="1")
        self.addCleanup(process.kill)
        while process.stdout.readline() != "blocked\n":
            pass
        process.terminate()
        time.sleep(0.5)
        self.assertIsNone(process.poll(), "a request that was begun is finished")
        process.terminate()
        said, _ = process.communicate(timeout=SECONDS)
        self.assertEqual((process.returncode, said), (128 + signal.SIGTERM, ""))
        self.follow("mlflow")
        self.assertEqual(self.received("mlflow"), expected_of(lines_of(1)))

    def test_errors(self):
        self.append(lines_of(1))
        self.follow("wandb", expect=2, PYTHONPATH="")
        self.assertIn(f"wandb is not installed for {sys.executable}; get it with: {sys.executable} -m pip install wandb", self.said)
        self.follow("mlflow", expect=2, PYTHONPATH="")
        self.assertIn("-m pip install mlflow", self.said)
        for client in CLIENTS:
            secrets = {"FAKE_ERROR": "refused:\n ftp://me:pass@phrase@host/ with k-12345 and k-23456", "WANDB_API_KEY": "k-12345", "DATABASE_PASS": "k-23456"}
            self.follow(client, expect=7, **secrets)
            self.assertIn("refused: ftp://...@host/ with ... and ...; the same command goes on", self.said)
            left = subprocess.run(["cat", *(os.path.join(self.folder, name) for name in os.listdir(self.folder))], stdout=subprocess.PIPE, text=True, check=True).stdout
            self.assertFalse("345" in left + self.said or "phrase" in left + self.said)
            self.follow(client)
            self.assertEqual(self.received(client), expected_of(lines_of(1)))
            self.follow(client, "--project", "other", expect=2)
            self.assertIn("some run goes to strata already", self.said)
            with open(f"{self.folder}/follow-{client}.json", encoding="utf-8") as file:
                kept = json.load(file)
            damaged = ({"place": -1}, {"row": 1 << 64}, {"base": []}, {"saves": [1]}, {"saves": [[0, "", 0]]}, {"sending": ["0", ""]})
            for text in ("", "{}", '{"place": 1}', "[" * 9999, *(json.dumps({**kept, **change}) for change in damaged)):
                self.write(f"follow-{client}.json", text)
                self.follow(client, expect=3)
                self.assertIn("expected what `tools/strata follow` has written", self.said)
            os.remove(f"{self.folder}/follow-{client}.json")
            os.mkfifo(f"{self.folder}/follow-{client}.json")
            self.follow(client, expect=3)
            os.remove(f"{self.folder}/follow-{client}.json")
        with open(os.path.join(self.temporary.name, "wandb.py"), "w", encoding="utf-8") as file:
            file.write("from os import nothing")
        self.follow("wandb", expect=7, PYTHONPATH=self.temporary.name)
        self.assertIn("wandb failed: ImportError: cannot import name 'nothing'", self.said)
        for arguments, words in (([], "--to"), (["--to", "x"], "invalid choice"), (["--to", "wandb", "--every", "0"], "expected 0.1 to 86400 seconds")):
            process = self.start(*arguments)
            self.assertIn(words, process.communicate(timeout=SECONDS)[0])
            self.assertEqual(process.returncode, 2)
        self.folder = os.path.join(self.temporary.name, "empty")
        os.mkdir(self.folder)
        self.follow("wandb", expect=3)
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    unittest.main()
