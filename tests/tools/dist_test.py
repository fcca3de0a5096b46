# SPDX-License-Identifier: MIT
"""Checks that the archive can do in an empty folder everything that users do with it."""
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

from archive import SMALL, WITHOUT_TESTS, Archive

ARCHIVE = "tools/strata.tar.gz"

# Runs a command with a terminal as its output, and prints what the terminal got.
IN_A_TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"


def can_trace():
    return shutil.which("strace") is not None and subprocess.run(["strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=none", "true"], check=False).returncode == 0


class DistTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.archive = Archive(os.path.join(os.environ["TEST_TMPDIR"], "dist"), ARCHIVE)
        cls.archive.prepare_small_text()

    def test_quick_start(self):
        """Runs the command of the README for a few steps: with its own text, two ranks and the whole model."""
        words, code = self.archive.run("train", "configs/quickstart.yaml", "steps=3", "schedule.warmup=1", "evaluation.tokens=4096", "log.every=1")
        self.assertEqual(code, 0, words)
        losses = self.archive.losses("runs/quickstart")
        self.assertEqual(len(losses), 3)
        self.assertLess(losses[2], losses[0])
        self.assertIn("step: 3  loss: ", words)
        self.assertIn("bits_per_byte", words)
        sample = words[words.index("\nIn the beginning"):]
        self.assertGreater(len(sample), 100)
        self.assertNotRegex(sample, "[\x00-\x08\x0b-\x1f\x7f]", "control characters in front of a person")
        self.assertTrue(os.path.isdir(self.archive.path("runs/quickstart/checkpoints/step-00000003")))

    def test_train_and_export(self):
        words, code = self.archive.run("train", "configs/quickstart.yaml", *SMALL, "steps=3", "run.folder=runs/small", "--ranks", "2")
        self.assertEqual(code, 0, words)
        words, code = self.archive.run("export", "runs/small", "weights")
        self.assertEqual(code, 0, words)
        self.assertTrue(os.path.exists(self.archive.path("weights/model.safetensors")))
        empty = "the prompt is empty; give --prompt TEXT or --prompt-ids IDS with one token at least"
        for wrong, message in ((["--prompt", ""], empty), ([], empty), (["--prompt-ids"], "--prompt-ids"),
                               (["--prompt", "a", "--top-p", "0"], "top-p is 0; expected more than 0 and at most 1"),
                               *((["--prompt", "a", "--temperature", value], f"the temperature is {value}; expected 0 or 1e-6 to 1e6")
                                 for value in ("-1", "1e7", "nan", "inf", "1e-300", "-0.5"))):
            words, code = self.archive.run("generate", "runs/small", *wrong)
            self.assertEqual(code, 2, words)
            self.assertIn(message, words)
            self.assertLess(len(words), 300)
        words, code = self.archive.run("generate", "runs/small", "--prompt", "a", "--chat")
        self.assertEqual((code, "--chat needs --prompt TEXT or --prompts FILE, and a tokenizer" in words), (2, True), words)
        self.assertIn("--chat", self.archive.run("generate", "--help")[0])
        for value in ("0", "1e-6", "1e6"):
            words, code = self.archive.run("generate", "runs/small", "--prompt", "a", "--tokens", "2", "--temperature", value)
            self.assertEqual(code, 0, words)
        # What a model writes may hold control characters. A file gets them as they are, a terminal does not.
        sample = ["generate", "runs/small", "--prompt", "a\x1b[31mb", "--tokens", "1"]
        self.assertTrue(self.archive.run(*sample)[0].startswith("a\x1b[31mb"))
        words, code = self.archive.run(*sample, before=[sys.executable, "-c", IN_A_TERMINAL])
        self.assertEqual(code, 0, words)
        self.assertTrue(words.startswith("a?[31mb"), words)

    def test_a_run_is_promised_from_measured_times(self):
        run = ["configs/quickstart.yaml", *SMALL, "steps=3", "run.threads=1", "--ranks", "2"]
        words, code = self.archive.run("validate", *run, "--promise", "--times", "times.jsonl")
        self.assertEqual(code, 0, words)
        self.assertIn("  a step                   not promised, because of what is missing below", words)
        words, code = self.archive.run("measure", *run, "--times", "times.jsonl")
        self.assertEqual(code, 0, words)
        words, code = self.archive.run("validate", *run, "--promise", "--times", "times.jsonl", "--json", "promise.jsonl")
        self.assertEqual(code, 0, words)
        self.assertNotIn("missing", words)
        with open(self.archive.path("promise.jsonl"), encoding="utf-8") as file:
            promise = json.load(file)
        self.assertGreater(promise["hours"][1], 0)
        self.assertIsNotNone(promise["step_parts_seconds"]["exposed communication"])  # 0 if the measured steps hid all of it
        self.assertGreater(promise["evaluations_seconds"][1], 0)

    @unittest.skipUnless(can_trace(), "strace may not trace processes here")
    def test_at_most_two_programs_and_a_script_are_started_before_the_ranks(self):
        best = ["check", "plan_kernels"]
        expected = {"aten": [["check"]], "aot_inductor": [["check", "validate", "make_for_config.py"], ["check"]], "best": [None, best, best]}
        for level, runs in expected.items():
            for programs in runs:
                found = self.programs_before_ranks(f"kernels.default={level}")
                if programs is not None:  # the first run with `best` measures a plan
                    self.assertEqual(found, programs, level)

    def programs_before_ranks(self, *arguments):
        """Returns the programs of the archive that `train` starts before mpirun. A script that does nothing replaces
        mpirun."""
        os.makedirs(self.archive.path("fake"), exist_ok=True)
        with open(self.archive.path("fake/mpirun"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n")
        os.chmod(self.archive.path("fake/mpirun"), 0o755)
        trace = self.archive.path("trace")
        strace = ["strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=execve", "-e", "signal=none", "-s", "4096", "-o", trace]
        environment = {"PATH": f"{self.archive.path('fake')}:{self.archive.environment['PATH']}", "STRATA_PACKAGES": self.archive.path("made")}
        words, code = self.archive.run("train", "configs/quickstart.yaml", *SMALL, "--ranks", "1", *arguments, before=strace, environment=environment)
        self.assertEqual(code, 0, words)
        with open(trace, encoding="utf-8") as file:
            before = re.split(r'[/"]mpirun"', file.read())[0]
        programs = re.findall(r'execve\("(?:[^"]*/strata/bin/(\w+)"|[^"]*", \["[^"]*", "[^"]*/(make_for_config\.py)")', before)
        return [binary or script for binary, script in programs]

    def test_byte_pairs_become_text_again(self):
        words, code = self.archive.run("prepare", "text", "--input", "text", "--output", "data/pairs", "--tokenizer", "bpe", "--vocabulary", "300")
        self.assertEqual(code, 0, words)
        words, code = self.archive.run("train", "configs/quickstart.yaml", *SMALL, "steps=2", "run.folder=runs/pairs", "--ranks", "1",
                                       "model.vocabulary=300", "data.train=data/pairs/train.bin", "data.validation=data/pairs/validation.bin")
        self.assertEqual(code, 0, words)
        shutil.rmtree(self.archive.path("data/pairs"))  # the run's folder has all that `generate` needs
        words, code = self.archive.run("generate", "runs/pairs", "--prompt", "7 times 8", "--tokens", "20")
        self.assertEqual(code, 0, words)
        self.assertTrue(words.startswith("7 times 8"), words)
        self.assertGreater(len(words), len("7 times 8") + 10)
        with open(self.archive.path("prompts.jsonl"), "w", encoding="utf-8") as file:
            file.write('{"text": "7 times 8"}\n{"ids": [5, 6]}\n{"text": "9"}\n')
        words, code = self.archive.run("generate", "runs/pairs", "--prompts", "prompts.jsonl", "--tokens", "5", "--temperature", "0")
        self.assertEqual(code, 0, words)
        results = [json.loads(line) for line in words.splitlines()]
        self.assertTrue(results[0]["text"].startswith("7 times 8") and results[2]["text"].startswith("9"), words)
        self.assertEqual(results[1]["ids"][:2], [5, 6])
        alone, code = self.archive.run("generate", "runs/pairs", "--prompt", "9", "--tokens", "5", "--temperature", "0")
        self.assertEqual((alone, code), (results[2]["text"] + "\n", 0))
        first = str(results[1]["ids"][2])  # the user's tokens end a sample, beside those of the tokenizer
        for order in (["--stop-ids", first, "--prompts", "prompts.jsonl"], ["--prompts", "prompts.jsonl", "--stop-ids", first]):
            words, code = self.archive.run("generate", "runs/pairs", *order, "--tokens", "5", "--temperature", "0")
            self.assertEqual((json.loads(words.splitlines()[1]), code), ({"ids": [5, 6]}, 0), words)
        for wrong in (["--chat"], ["--prompt", "a", "--chat"]):
            words, code = self.archive.run("generate", "runs/pairs", *wrong)
            self.assertEqual((code, "--chat" in words), (2 if len(wrong) == 1 else 3, True), words)
        words, code = self.archive.run("generate", "runs/pairs", "--prompt", "7" * 100)
        self.assertEqual(code, 2, words)
        self.assertIn("tokens, and the context of the model 32; give a shorter one", words)
        words, code = self.archive.run("generate", "runs/pairs", "--prompt", "")
        self.assertEqual(code, 2, words)
        self.assertIn("the prompt is empty; give --prompt TEXT", words)
        words, code = self.archive.run("generate", "runs/pairs", "--prompt-ids", "5", "6", "--tokens", "2")
        self.assertEqual((code, words.split()[:2], len(words.split())), (0, ["5", "6"], 4))
        # A model that was trained on GPUs can be sampled on any device.
        with open(self.archive.path("runs/pairs/resolved.yaml"), encoding="utf-8") as file:
            resolved = file.read()
        with open(self.archive.path("runs/pairs/resolved.yaml"), "w", encoding="utf-8") as file:
            file.write(resolved.replace("  default: aten", "  default: cuda"))
        words, code = self.archive.run("generate", "runs/pairs", "--prompt-ids", "5", "6", "--tokens", "2")
        self.assertEqual((code, len(words.split())), (0, 4), words)
        words, code = self.archive.run("generate", "runs", "--prompt-ids", "5")
        self.assertEqual(code, 2)
        self.assertIn("runs is not the folder of a run", words)

    def test_chat_with_imported_weights(self):
        """A model that was exported, got a chat template and was imported. Its answer is that of the same ids."""
        words, code = self.archive.run("prepare", "text", "--input", "text", "--output", "data/chat", "--tokenizer", "bpe", "--vocabulary", "300")
        self.assertEqual(code, 0, words)
        train = ["train", "configs/quickstart.yaml", *SMALL, "--ranks", "1", "model.vocabulary=300", "data.train=data/chat/train.bin",
                 "data.validation=data/chat/validation.bin"]
        exported, imported = "exported", 'a "folder"  # of weights'
        for command in ([*train, "steps=1", "run.folder=runs/base"], ["export", "runs/base", exported, "--format", "hf"]):
            words, code = self.archive.run(*command)
            self.assertEqual(code, 0, words)
        for name, text in (("chat_template.jinja", "Q: {{ messages[0].content }} A:"), ("generation_config.json", '{"eos_token_id": [5]}')):
            with open(self.archive.path(f"{exported}/{name}"), "w", encoding="utf-8") as file:
                file.write(text)
        os.remove(self.archive.path("data/chat/tokenizer.json"))  # so the run has that of the weights
        start = f"checkpoint.initial_weights={json.dumps(imported)}"
        for command in (["import", exported, imported], [*train, "steps=1", "run.folder=runs/chat", start]):
            words, code = self.archive.run(*command)
            self.assertEqual(code, 0, words)
        greedy = ["--tokens", "8", "--temperature", "0"]
        whole, code = self.archive.run("generate", "runs/chat", "--prompt", "Q: 7 A:", *greedy)
        self.assertEqual((code, whole[:7]), (0, "Q: 7 A:"), whole)
        answer, code = self.archive.run("generate", "runs/chat", "--prompt", "7", "--chat", *greedy)
        self.assertEqual((code, answer), (0, whole[7:]), answer)

    def test_bad_data(self):
        """The exit code of a rank is the exit code of the command, and the cause is in the run's folder."""
        os.makedirs(self.archive.path("data/bad"), exist_ok=True)
        for name in ("train.bin", "validation.bin"):
            with open(self.archive.path(f"data/small/{name}"), "rb") as good, open(self.archive.path(f"data/bad/{name}"), "wb") as bad:
                bad.write(good.read()[:-1])
        words, code = self.archive.run("train", "configs/quickstart.yaml", *SMALL, "steps=3", "run.folder=runs/bad", "--ranks", "2",
                                       "data.train=data/bad/train.bin")
        self.assertEqual(code, 3, words)
        self.assertIn("data/bad/train.bin", words)
        self.assertIn("it was truncated", words)
        with open(self.archive.path("runs/bad/error.json"), encoding="utf-8") as file:
            report = json.load(file)
        self.assertEqual(report["code"], 3)
        self.assertIn("data/bad/train.bin", report["message"])

    def test_the_hash_of_the_archive_stands_beside_it(self):
        check = ["sha256sum", "--check", "--strict", "strata.tar.gz.sha256"]
        result = subprocess.run(check, cwd="tools", capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, result.stdout), (0, "strata.tar.gz: OK\n"), result.stderr)
        other = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        shutil.copy("tools/strata.tar.gz.sha256", other)
        shutil.copy(ARCHIVE, other)
        with open(other + "/strata.tar.gz", "r+b") as file:
            file.seek(1000)
            byte = file.read(1)
            file.seek(1000)
            file.write(bytes([byte[0] ^ 1]))
        self.assertEqual(subprocess.run(check, cwd=other, capture_output=True, check=False).returncode, 1)
        shutil.rmtree(other)

    def test_scripts_that_pages_run_are_in_the_archive(self):
        named = set()
        for page in (name for name in self.archive.files if name.endswith(".md")):
            if page == "CONTRIBUTING.md":  # for those who have a checkout
                continue
            with open(self.archive.path(page), encoding="utf-8") as file:
                named.update(re.findall(r"\bpython3 (tools/[\w/]+\.py)", file.read()))
        self.assertGreaterEqual(named, {"tools/bench/peers.py", "tools/bench/save_cost.py"})
        self.assertEqual(named - set(self.archive.files), set())

    def test_the_hashes_of_all_files_are_in_the_archive(self):
        with open(self.archive.path("SHA256SUMS"), encoding="utf-8") as file:
            hashes = file.read()
        names = [line.split("  ", 1)[1] for line in hashes.splitlines()]
        self.assertEqual(names, [name for name in self.archive.files if name != "SHA256SUMS"])
        for name in ("bin/train", "bill-of-materials.spdx.json", "tools/strata", "docs/several-machines.md"):
            self.assertIn(name, names)
        self.assertEqual(self.failures_of_hashes(hashes), (0, ""))
        link = self.archive.path("bin/export")
        os.rename(link, link + ".link")
        shutil.copy(self.archive.path("tools/strata"), link)
        self.assertEqual(self.failures_of_hashes(re.search(r".*  bin/export\n", hashes)[0]), (1, "bin/export: FAILED\n"), "another program stands in the place of a link")
        os.replace(link + ".link", link)
        with open(self.archive.path("bill-of-materials.spdx.json"), encoding="utf-8") as file:
            self.assertIn("LibTorch", [package["name"] for package in json.load(file)["packages"]])

    def failures_of_hashes(self, hashes):
        check = ["sha256sum", "--check", "--strict", "--quiet"]
        result = subprocess.run(check, cwd=self.archive.folder, input=hashes, capture_output=True, text=True, check=False)
        return result.returncode, result.stdout

    def test_other_tests_unpack_the_same_files(self):
        """Their archive is this one without the tests of `tools/strata gpu-test`."""
        with tarfile.open(WITHOUT_TESTS) as archive:
            theirs = archive.extractfile("strata/SHA256SUMS").read().decode().splitlines()
        with open(self.archive.path("SHA256SUMS"), encoding="utf-8") as file:
            ours = [line for line in file.read().splitlines() if not re.search(r"  (tests/|tools/bazel/|bin/(\w+_test|lib\w+\.so))", line)]
        self.assertEqual(theirs, ours)
        self.assertIn("bin/train", [line.split("  ")[1] for line in theirs])

    def test_programs_ask_the_loader_for_nothing_of_bazel(self):
        for name in os.listdir(self.archive.path("bin")):
            needs = subprocess.run(["readelf", "-d", self.archive.path(f"bin/{name}")], check=True, capture_output=True, text=True).stdout
            self.assertNotIn("_solib", needs)
            self.assertNotIn("bazel", needs)


if __name__ == "__main__":
    unittest.main()
