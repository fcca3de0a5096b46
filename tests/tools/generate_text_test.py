# SPDX-License-Identifier: MIT
"""Checks `tools/strata generate` with a tokenizer. A script stands for the program: it adds ids to each prompt."""
import json
import os
import re
import signal
import subprocess
import sys
import unittest

from fake_archive import FakeArchive
from text_runs import TEXT, TextRuns, llama

from bad_input import BadInput
from generate_text import sample_file
from text_tokens import RunTokenizer

# Appends its arguments to `asked`. Answers with the ids of `answer`, and waits for the file `go` before the last one, up to 20 s.
PROGRAM = f"#!{sys.executable}" + r"""
import json, os, signal, sys, time
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
with open("asked", "w") as file:
    json.dump(sys.argv[1:], file)
with open("answer") as file:
    answer = json.load(file)
if answer == "fail":
    print("generate: no such run", file=sys.stderr)
    sys.exit(4)
if answer == "die":
    os.kill(os.getpid(), 9)
if "--prompts" in sys.argv and "--stop-ids" in sys.argv:
    with open(sys.argv[sys.argv.index("--prompts") + 1]) as file:
        for line in file:
            print(json.dumps({"ids": json.loads(line)["ids"] + answer}))
elif "--prompt-ids" in sys.argv and "--stop-ids" in sys.argv:
    words = sys.argv[sys.argv.index("--prompt-ids") + 1 :]
    ids = words[: next((place for place, word in enumerate(words) if word.startswith("--")), len(words))]
    print(*ids, *answer[:-1], sep="\n", flush=True)
    end = time.monotonic() + 20
    while not os.path.exists("go") and time.monotonic() < end:
        time.sleep(0.02)
    print(answer[-1])
else:
    print("as it is")
"""
IN_A_TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
CHAT = "<|user|>{{ messages[0].content }}<|assistant|>"


class GenerateTextTest(TextRuns):
    @classmethod
    def setUpClass(cls):
        cls.archive = FakeArchive(os.path.join(os.environ["TEST_TMPDIR"], "archive"))
        cls.archive.write("bin/generate", PROGRAM, 0o755)

    def setUp(self):
        super().setUp()
        self.archive.write("go", "")
        self.answer(" of the", end="<eos>")

    def answer(self, text, end=""):
        ids = self.tokenizer.encode(text + end, add_special_tokens=False).ids if text not in ("fail", "die") else text
        self.archive.write("answer", json.dumps(ids))

    def generate(self, *words, code=0, **options):
        environment = {"STRATA_PYTHON": sys.executable, **options.pop("environment", {})}
        found, output, errors = self.archive.run("generate", self.run_folder, *words, environment=environment, **options)
        self.assertEqual(found, code, errors)
        return output if code == 0 else errors

    def asked(self):
        return json.loads(self.archive.read("asked"))

    def ids(self, text):
        return self.tokenizer.encode(text).ids

    def test_a_prompt_becomes_ids_and_comes_back(self):
        stop = ["--stop-ids", *map(str, self.ids("<eos>"))]
        for prompt in (TEXT, "-5 and --chat", "--tokens", "-", "a\n\n\"b\" 'c' $HOME `d` * \\n", " ", "<|user|>"):
            for words in (["--prompt", prompt, "--tokens", "9"], ["--tokens", "9", f"--prompt={prompt}"]):
                self.assertEqual(self.generate(*words), f"{prompt} of the<eos>\n")
                self.assertEqual(self.asked(), [self.run_folder, "--tokens", "9", "--prompt-ids", *map(str, self.ids(prompt)), *stop])

    def test_a_prompt_may_be_large(self):
        prompt = "the deep, " * 13_000
        self.assertEqual(self.generate("--prompt", prompt), prompt + " of the<eos>\n")

    def test_the_beginning_of_a_text_is_not_shown(self):
        self.begin_with_weights(llama)
        self.answer("was")
        self.assertEqual(self.generate("--prompt", "Darkness"), "Darkness was\n")
        self.assertEqual(self.asked()[2:-2], list(map(str, self.tokenizer.encode("Darkness").ids)))
        self.assertEqual(self.tokenizer.encode("Darkness").tokens[0], "<s>")
        path = self.write("prompts", '{"text": "Darkness"}\n{"text": ""}\n')
        self.assertEqual(self.generate("--prompts", path), '{"text": "Darkness was"}\n{"text": "was"}\n')
        self.assertEqual(self.generate("--prompt", ""), "was\n")

    def test_tokens_are_printed_as_they_come(self):
        os.remove(self.archive.path("go"))
        self.answer(" the deep€ of")
        environment = {"STRATA_PYTHON": sys.executable, "PYTHONUNBUFFERED": ""}
        process = self.archive.start("generate", self.run_folder, "--prompt", TEXT, environment=environment)
        expected = TEXT + " the deep€"
        self.assertEqual(process.stdout.read(len(expected)), expected)
        self.assertIsNone(process.poll())
        self.archive.write("go", "")
        self.assertEqual(process.communicate(timeout=60), (" of\n", ""))

    def test_a_character_of_several_tokens_is_printed_whole(self):
        self.answer("🙂")
        self.assertGreater(len(self.ids("🙂")), 1)
        self.assertEqual(self.generate("--prompt", "a"), "a🙂\n")
        self.archive.write("answer", json.dumps(self.ids("🙂")[:-1]))  # the sample ends inside
        self.assertEqual(self.generate("--prompt", "a"), "a" + self.tokenizer.decode(self.ids("🙂")[:-1]) + "\n")

    def test_a_chat_prints_the_answer(self):
        self.begin_with_weights(chat_template__jinja=CHAT, generation_config__json={"eos_token_id": [3, 4]})
        for words in (["--chat", "--prompt", " What is -5?"], ["--prompt= What is -5?", "--chat"]):
            self.assertEqual(self.generate(*words), " of the\n")
            self.assertEqual(self.asked()[1:], ["--prompt-ids", *map(str, self.ids("<|user|> What is -5?<|assistant|>")), "--stop-ids", "3", "4"])
        path = self.write("prompts", '{"ids": [5]}\n{"text": "What?"}\n')
        results = [json.loads(line) for line in self.generate("--prompts", path, "--chat").splitlines()]
        self.assertEqual(results, [{"ids": [5, *self.ids(" of the<eos>")]}, {"text": " of the"}])

    def test_a_template_that_draws_hides_its_own_prompt(self):
        """Such as one with the time: two renderings may differ."""
        self.begin_with_weights(chat_template__jinja="{{ ['the', 'Darkness was upon the face: 0123456789'] | random }}<|assistant|>")
        self.assertEqual({self.generate("--chat", "--prompt", "a") for _ in range(8)}, {" of the\n"})

    def test_files_of_prompts(self):
        prompts = [{"text": TEXT}, {"ids": [5, 6]}, {"text": "<|user|> \u0000"}]
        lines = "\ufeff" + "\n\r\n \n".join(map(json.dumps, prompts))
        ending = self.ids(" of the<eos>")
        expected = [{"text": TEXT + " of the<eos>"}, {"ids": [5, 6, *ending]}, {"text": "<|user|> \u0000 of the<eos>"}]
        for words in (["--prompts", self.write("prompts", lines)], ["--prompts=" + self.write("a 'file' $HOME", lines)], ["--prompts", "/dev/stdin"]):
            with open(self.path("prompts"), encoding="utf-8") as file:
                before = ["bash", "-c", 'cat "$0" | "$@"', file.name]  # a pipe can be read once
                results = [json.loads(line) for line in self.generate(*words, "--seed", "7", before=before).splitlines()]
            self.assertEqual(results, expected)
            self.assertEqual(self.asked()[1:3] + self.asked()[5:], ["--seed", "7", "--stop-ids", *map(str, self.ids("<eos>"))])
            self.assertFalse(os.path.exists(self.asked()[4]))

    def test_lines_of_ids_end_as_texts_do(self):
        self.generate("--prompts", self.write("prompts", '{"ids": [5]}'), "--stop-ids", "9")
        self.assertEqual((self.asked()[1:4], len(self.asked())), (["--stop-ids", "9", "--prompts"], 7))
        self.assertEqual(self.asked()[5:], ["--stop-ids", *map(str, self.ids("<eos>"))])

    def test_lines_that_are_refused(self):
        form = 'expected a JSON object such as {"text": "Once"} or {"ids": [5, 6]}'
        for wrong, message in (
                *((line, form) for line in ("[5]", "5", '"a"', "null", '{"text": 5}', '{"text": ["a"]}', '{"text": null}', '{"ids": "abc"}',
                                            '{"ids": ["a"]}', '{"ids": [5.0]}', '{"ids": [true]}', '{"ids": [-1]}', '{"ids": [%s]}' % 2**70,
                                            '{"text": "a", "ids": [5]}', '{"ids": [1], "ids": [2]}', '{"text": "a", "text": "b"}', '[["ids", [5]]]', "{", '{"words": "a"}', "{}", "[" * 100_000, "\udcff")),
                ('{"text": ""}', "the prompt is empty"), ('{"ids": []}', "the prompt is empty"),
                ('{"text": "\\ud800"}', "the tokenizer cannot encode")):
            with open(self.path("prompts"), "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write('{"text": "a"}\n\n' + wrong)
            with self.assertRaisesRegex(BadInput, re.escape(f"{self.path('prompts')}:3: {message}")):
                sample_file(RunTokenizer(self.run_folder, is_chat=False), self.path("prompts"), ["false"])
        self.assertIn("prompts:3: the tokenizer cannot encode", self.generate("--prompts", self.path("prompts"), code=3))
        self.assertIn("prompts: there is no prompt in it", self.generate("--prompts", self.write("prompts", "\n \n"), code=3))
        self.assertIn("nowhere: No such file", self.generate("--prompts", self.path("nowhere"), code=4))

    def test_what_the_program_has_to_say(self):
        for answer, code in (("fail", 4), ("die", 137)):
            self.answer(answer)
            for words in (["--prompt", "a"], ["--prompts", self.write("prompts", '{"text": "a"}')]):
                found, output, errors = self.archive.run("generate", self.run_folder, *words, environment={"STRATA_PYTHON": sys.executable})
                self.assertEqual((found, output, "no such run" in errors), (code, "", answer == "fail"), errors)

    def test_what_is_for_the_program_alone(self):
        """Ids, bytes, and options that it refuses come to it as they are."""
        for words in (["--prompt-ids", "5", "6"], ["--prompt", "a", "--prompts", "b"], ["--prompt", "a", "--prompt", "b"],
                      ["--prompt", "a", "--prompt-ids", "5"], ["--prompts", "a", "--prompt-ids=5"], ["--chat"], []):
            self.generate(*words)
            self.assertEqual(self.asked(), [self.run_folder, *words])
        os.remove(self.path("run/tokenizer.json"))
        for weights in ("", self.weights):
            self.write("run/resolved.yaml", f'checkpoint:\n  initial_weights: {json.dumps(weights)}  # default\n')
            self.assertEqual(self.generate("--prompt", "a", "--chat"), "as it is\n")
            self.assertEqual(self.asked(), [self.run_folder, "--prompt", "a", "--chat"])
        self.tokenizer.save(os.path.join(self.weights, "tokenizer.json"))
        self.assertEqual(self.generate("--prompt", "a"), "a of the<eos>\n")
        os.remove(self.path("run/resolved.yaml"))  # no run
        self.assertEqual(self.generate("--prompt", "a"), "as it is\n")

    def test_a_terminal_obeys_nothing(self):
        self.answer("\x1b[31m\x9b\x07\t<|user|>")
        self.assertEqual(self.generate("--prompt", "a"), "a\x1b[31m\x9b\x07\t<|user|>\n")
        self.assertEqual(self.generate("--prompt", "a", before=[sys.executable, "-c", IN_A_TERMINAL]), "a?[31m??\t<|user|>\n")
        self.begin_with_weights(chat_template__jinja="{{ raise_exception('\x1b[31m no') }}")
        self.assertIn("?[31m no", self.generate("--chat", "--prompt", "a", code=3))

    def test_text_is_utf_8_everywhere(self):
        plain = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        self.assertEqual(self.generate("--prompt", "€", environment=plain), "€ of the<eos>\n")
        self.assertIn("--prompt: expected text in UTF-8", self.generate("--prompt", b"\xff", code=3))

    def test_ctrl_c_ends_it(self):
        os.remove(self.archive.path("go"))
        process = self.archive.start("generate", self.run_folder, "--prompt", TEXT, environment={"STRATA_PYTHON": sys.executable})
        self.assertEqual(process.stdout.read(len(TEXT)), TEXT)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=15)
        self.assertEqual((process.returncode, "generate_text.py" in errors), (130, False), errors)

    def test_a_reader_may_leave(self):
        self.answer("the " * 50_000)
        command = 'set -o pipefail; "$@" | head -c 1'
        environment = {**os.environ, "STRATA_TORCH": self.archive.path("site/torch"), "STRATA_PYTHON": sys.executable}
        result = subprocess.run(["bash", "-c", command, "-", self.archive.path("tools/strata"), "generate", self.run_folder, "--prompt", "a"],
                                cwd=self.archive.folder, env=environment, capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (141, "a", ""))

    def test_packages_that_are_missing(self):
        """An archive has none of its own."""
        bare = self.archive.write("bin/bare_python", f'#!/bin/sh\nexec {sys.executable} -S "$@"\n', 0o755)
        message = self.generate("--prompt", "a", code=70, environment={"STRATA_PYTHON": bare})
        self.assertIn("the Python package tokenizers is not installed; get it with: pip install", message)


if __name__ == "__main__":
    unittest.main()
