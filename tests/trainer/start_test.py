# SPDX-License-Identifier: MIT
"""Starts the train program in folders with all kinds of contents: what it replaces, what it refuses, and what it says."""

import json
import os
import re
import shutil
import signal
import time
import unittest

import torch
from safetensors.torch import load_file, save_file

from training_runs import TrainingRuns, rank_processes

EXPORT = os.environ.get("STRATA_TEST_EXPORT") or os.path.abspath("tools/weights/export")


def catches(process, number):
    """True if the process has a handler for this signal."""
    with open("/proc/%d/status" % process, encoding="utf-8") as file:
        return bool(int(re.search(r"SigCgt:\s*(\w+)", file.read())[1], 16) >> (number - 1) & 1)


class StartTest(TrainingRuns):
    def read(self, run, name):
        with open(self.path(run, name), "rb") as file:
            return file.read()

    def test_each_run_says_where_it_starts(self):
        self.train("run", "run.stop_after=2", ranks=1)
        self.assertIn("\nstarts at step 0\n", self.output)
        self.train("run", "run.stop_after=3", ranks=1)
        self.assertNotIn("starts at step", self.output)
        self.assertIn("\nresumed from step 2\n", self.output)
        self.train("run", "run.stop_after=2", "batch=8", "run.overwrite=true", ranks=1)
        self.assertIn("\nstarts at step 0, in place of the run that the folder held\n", self.output)
        self.train("crashed", "fault={at: step 3 rank 0, kind: exception}", environment={"STRATA_FAULTS": "1"}, ranks=1, expect=70)
        self.train("crashed", "run.stop_after=2", ranks=1)
        self.assertIn("\nstarts at step 0 again: the run in this folder ended after step ", self.output)

    def test_initial_weights_of_16_bits_are_told(self):
        self.train("first", "run.stop_after=1", ranks=1)
        self.run_program(EXPORT, self.path("first"), self.path("weights"))
        file = self.path("weights", "model.safetensors")
        weights = load_file(file)
        given = "checkpoint.initial_weights=" + self.path("weights")
        told = "checkpoint.initial_weights: weights of %s become float32 masters, and no value changes\n"
        self.train("single", "run.stop_after=1", given, ranks=1)
        self.assertNotIn("become float32 masters", self.output)
        names = sorted(weights)
        for types, expected in (([torch.bfloat16], "BF16"), ([torch.float16, torch.float32], "F16"), ([torch.float16, torch.bfloat16], "BF16 and F16")):
            save_file({name: weights[name].to(types[place % len(types)]) for place, name in enumerate(names)}, file)
            self.train(expected, "run.stop_after=1", given)
            self.assertEqual(self.output.count(told % expected), 1)
            self.train(expected, "run.stop_after=2", given)
            self.assertNotIn("become float32 masters", self.output)  # it goes on from its checkpoint

    def test_a_run_whose_checkpoints_are_gone_does_not_start_from_nothing(self):
        self.train("lost", "run.stop_after=6", ranks=1)
        os.rename(self.path("lost", "checkpoints"), self.path("elsewhere"))
        metrics = self.read("lost", "metrics.jsonl")
        self.train("lost", "run.stop_after=7", ranks=1, expect=2)
        self.assertIn("holds this run, which has saved after step 6, and no checkpoint; expected one in %s" % self.path("lost", "checkpoints"), self.errors)
        self.assertEqual(self.read("lost", "metrics.jsonl"), metrics)
        shutil.copytree(self.path("elsewhere"), self.path("lost", "checkpoints"), symlinks=True)
        self.train("lost", "run.stop_after=7", ranks=1)
        self.assertIn("\nresumed from step 6\n", self.output)
        shutil.rmtree(self.path("lost", "checkpoints"))
        self.train("lost", "run.stop_after=1", "run.overwrite=true", ranks=1)
        self.assertIn("\nstarts at step 0, in place of the run that the folder held\n", self.output)
        self.assertEqual(len(self.losses("lost")), 1)

    def test_a_run_that_was_cut_off_remembers_its_last_checkpoint(self):
        # The save of step 10 waits for that of step 5, so one checkpoint is recorded. Lines of steps come after it.
        self.train("cut", "fault={at: step 14 rank 0, kind: exception}", environment={"STRATA_FAULTS": "1"}, ranks=1, expect=70)
        saved = [line["checkpoint"] for line in self.lines("cut") if "checkpoint" in line]
        shutil.rmtree(self.path("cut", "checkpoints"))
        self.train("cut", ranks=1, expect=2)
        self.assertIn("which has saved after step %d, and no checkpoint" % saved[-1], self.errors)

    def test_files_of_others_are_replaced_only_with_overwrite(self):
        names = ("metrics.jsonl", "events.out.tfevents.7.host.1.0", "checkpoints/model.bin", "profile/mine.txt")
        for name in names:
            folder = "of_" + name.split("/")[0].split(".")[0]
            path = self.path(folder, name)
            os.makedirs(os.path.dirname(path))
            with open(path, "w", encoding="utf-8") as file:
                file.write("mine\n")
            self.train(folder, "steps=4", ranks=1, expect=2)
            self.assertIn("run.folder %s: has %s, which a run would replace" % (self.path(folder), name.split("/")[0]), self.errors)
            self.assertEqual(self.read(folder, name), b"mine\n")
            self.assertEqual(sorted(os.listdir(self.path(folder))), [".lock", name.split("/")[0]])
        self.train("of_metrics", "steps=4", "run.overwrite=true", ranks=1)
        self.assertEqual(len(self.losses("of_metrics")), 4)

    def test_the_path_of_a_configuration_may_hold_any_bytes(self):
        odd = os.path.join(os.fsencode(self.folder), b"jos\xe9\n.yaml")
        os.rename(self.config("odd", 16), odd)
        for stop in (1, 2):
            self.train("odd", "run.stop_after=%d" % stop, ranks=1, config=odd)
        self.assertIn("\nresumed from step 1\n", self.output)
        self.assertIn(b"# %s/jos??.yaml:2\n" % os.fsencode(self.folder), self.read("odd", "resolved.yaml"))

    def test_a_stop_request_while_a_run_starts_ends_it_as_one_that_may_be_started_again(self):
        process = self.start("early", "steps=4")
        try:
            end = time.monotonic() + 60
            while len(rank_processes(process.pid)) < 2:
                self.assertLess(time.monotonic(), end)
                time.sleep(0.01)
            ranks = rank_processes(process.pid)
            os.kill(ranks[1], signal.SIGSTOP)  # rank 0 waits for this rank
            while not catches(ranks[0], signal.SIGUSR1):
                self.assertLess(time.monotonic(), end, "no handler while the run starts")
                time.sleep(0.05)
            os.kill(ranks[0], signal.SIGUSR1)
            os.kill(ranks[1], signal.SIGCONT)
            output, errors = process.communicate(timeout=120)
        finally:
            for rank in rank_processes(process.pid).values():
                os.kill(rank, signal.SIGKILL)
            process.kill()
        self.assertEqual(process.returncode, 75, output + errors)
        self.assertIn("asked to stop before the first step: nothing is lost\n", output)
        self.assertFalse(os.path.exists(self.path("early", "metrics.jsonl")))
        self.train("early", "steps=4")
        self.assertEqual(len(self.losses("early")), 4)

    def test_only_a_tokenizer_is_copied_into_the_folder(self):
        tokenizer, secret = self.data + "/tokenizer.json", self.folder + "/secret"
        with open(secret, "w", encoding="utf-8") as file:
            file.write("{}")
        os.symlink(secret, tokenizer)
        self.train("link", "steps=4", ranks=1, expect=4, fault="a tokenizer that is a symbolic link")
        self.assertIn("tokenizer.json: is a symbolic link", self.errors)
        os.remove(tokenizer)
        os.mkfifo(tokenizer)
        self.train("pipe", "steps=4", ranks=1, expect=4, fault="a tokenizer that is a pipe")
        self.assertIn("tokenizer.json: expected a regular file", self.errors)
        os.remove(tokenizer)
        for text in ("", "-----BEGIN OPENSSH PRIVATE KEY-----\n", "[]", '{"model": '):
            with open(tokenizer, "w", encoding="utf-8") as file:
                file.write(text)
            self.train("text", "steps=4", ranks=1, expect=3)
            self.assertIn("tokenizer.json: expected a JSON object", self.errors)
            self.assertFalse(os.path.exists(self.path("text", "tokenizer.json")))
        with open(tokenizer, "w", encoding="utf-8") as file:
            file.write(' {"model": {}}')
        self.train("text", "steps=4", ranks=1)
        self.assertEqual(self.read("text", "tokenizer.json"), b' {"model": {}}')

    def test_a_tokenizer_beside_tokens_of_bytes_is_not_of_them(self):
        """It was left by data that these have replaced. Samples and exports would have it."""
        with open(self.data + "/tokenizer.json", "w", encoding="utf-8") as file:
            file.write('{"model": {}}')
        for name, kept in (("bytes", False), ("bpe", True)):
            with open(self.data + "/train.bin.json", "w", encoding="utf-8") as file:
                json.dump({"bytes": 6000, "tokens": 6000, "sources": ["tokenizer"], "tokenizer": name}, file)
            self.train(name, "steps=4", ranks=1)
            self.assertEqual(os.path.exists(self.path(name, "tokenizer.json")), kept)
            self.assertEqual("tokenizer.json is not of these data, whose tokens are bytes" in self.output, not kept)

    def test_a_corrected_command_starts_in_the_folder_of_a_run_that_did_not_train(self):
        missing = "data.train=%s/missing.bin" % self.data
        self.train("mended", "steps=4", missing, ranks=1, expect=3)
        self.assertEqual(sorted(os.listdir(self.path("mended"))), [".lock", "error.json", "kernels.txt", "memory.txt", "resolved.yaml"])
        with open(self.path("mended", "tokenizer.json"), "w", encoding="utf-8") as file:
            file.write("{}")  # that of the other data
        with open(self.path("mended", "resolved.yaml"), "a", encoding="utf-8") as file:
            file.write("steps: [")
        self.train("mended", "steps=4", ranks=1)
        self.assertIn("\nstarts at step 0\n", self.output)
        self.assertEqual(len(self.losses("mended")), 4)
        self.assertFalse(os.path.exists(self.path("mended", "tokenizer.json")))
        self.assertEqual(self.read("mended", "tokenizer.json.old"), b"{}")
        self.train("mended", "steps=5", ranks=1, expect=2)
        self.assertIn("holds another run", self.errors)

    def test_a_finished_run_with_a_constant_schedule_is_extended(self):
        constant = "schedule={type: constant, warmup: 2}"
        self.train("whole", "steps=6", constant, ranks=1)
        self.train("longer", "steps=4", constant, ranks=1)
        self.train("longer", "steps=6", constant, ranks=1)
        self.assertIn("\nresumed from step 4\n", self.output)
        self.assertEqual(self.losses("longer"), self.losses("whole"))
        self.assertEqual(self.hashes("longer")[6], self.hashes("whole")[6])

    def test_a_run_with_a_decay_is_extended_from_before_the_decay(self):
        wsd = ["schedule={type: wsd, warmup: 2, decay: 3}", "checkpoint={every: 2, keep: 4}"]
        self.train("whole", "steps=9", *wsd, ranks=1)
        self.train("longer", "steps=7", *wsd, ranks=1)
        self.train("longer", "steps=9", *wsd, ranks=1, expect=2)
        self.assertIn("steps: was 7, now 9; the saved step 7 is in the decay of the schedule, and a checkpoint of step 4 or an earlier one", self.errors)
        for step in (6, 7):
            shutil.rmtree(self.path("longer", "checkpoints/step-%08d" % step))
        self.train("longer", "steps=9", *wsd, ranks=1)
        self.assertIn("\nresumed from step 4\n", self.output)
        self.assertEqual(self.losses("longer"), self.losses("whole"))
        self.assertEqual(self.hashes("longer")[9], self.hashes("whole")[9])


if __name__ == "__main__":
    unittest.main()
