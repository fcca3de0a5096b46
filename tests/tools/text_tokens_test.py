# SPDX-License-Identifier: MIT
"""Checks text in and out of samples: the tokenizer of a run, chat templates and the tokens that end a text."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import tokenizers
import transformers

sys.path.insert(0, "tools")
import bad_input  # noqa: E402
import chat_template  # noqa: E402

TEXT_TOKENS = os.path.abspath("tools/text_tokens.py")
TEXT = "Darkness was upon\nthe face of the deep: äöü €\n"
# As those of Llama and Qwen: a loop with a break, tests of roles, `tojson`, a date, white space control.
TEMPLATE = """{{- bos_token }}
{%- if messages[0].role == 'system' %}
    {{- '<|system|>' + messages[0].content }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role not in ['user', 'assistant'] %}
        {{- raise_exception('no such role') }}
    {%- endif %}
    {{- '<|' + message.role + '|>' }}
    {% if loop.first %}
{{ message.content | trim }} {{ ['ä'] | tojson }} {{ strftime_now('%Y') }}
    {% endif %}
    {%- break %}
{%- endfor %}
{%- if add_generation_prompt %}<|assistant|>{% endif %}"""


class TextTokensTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name
        for name in ("run", "weights # 1"):
            os.mkdir(self.path(name))
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = tokenizers.decoders.ByteLevel()
        trainer = tokenizers.trainers.BpeTrainer(vocab_size=300, initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()), show_progress=False)
        tokenizer.train_from_iterator([TEXT], trainer)
        tokenizer.add_special_tokens(["<s>", "<eos>", "<|user|>", "<|assistant|>"])
        self.tokenizer = tokenizer
        tokenizer.save(self.path("run/tokenizer.json"))
        self.write("run/resolved.yaml", 'checkpoint:\n  initial_weights: ""  # default\n')

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text if isinstance(text, str) else json.dumps(text))

    def begin_with_weights(self, **files):
        self.write("run/resolved.yaml", 'checkpoint:\n  initial_weights: %s  # config.yaml:3\n' % json.dumps(self.path("weights # 1")))
        for name, value in files.items():
            self.write(f"weights # 1/{name.replace('__', '.')}", value)

    def run_tool(self, *words, standard_input="", expected=0):
        result = subprocess.run([sys.executable, TEXT_TOKENS, *words], input=standard_input, capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, expected, result.stderr)
        return result.stdout if expected == 0 else result.stderr

    def test_text_comes_back(self):
        for text in (TEXT, "-5 --chat", "", "<|user|>"):
            words = self.run_tool("--", "encode", self.path("run"), text).split()
            self.assertEqual(words[-2:], ["--stop-ids", str(self.tokenizer.token_to_id("<eos>"))])
            ids = words[1:-2]
            self.assertEqual(words[0] == "--prompt-ids", text != "")
            self.assertEqual(self.run_tool("--", "decode", self.path("run"), text, standard_input="\n".join(ids)), text + "\n")

    def test_stops_are_those_of_the_weights(self):
        self.begin_with_weights(generation_config__json={"eos_token_id": [7, 9]})
        self.assertEqual(self.run_tool("--", "stops", self.path("run")), "--stop-ids 7 9\n")
        self.begin_with_weights(generation_config__json={"eos_token_id": 0})
        self.assertEqual(self.run_tool("--", "stops", self.path("run")), "--stop-ids 0\n")
        self.begin_with_weights(generation_config__json={"eos_token_id": None}, tokenizer_config__json={"eos_token": {"content": "<s>"}})
        self.assertEqual(self.run_tool("--", "stops", self.path("run")), f"--stop-ids {self.tokenizer.token_to_id('<s>')}\n")

    def test_files_of_prompts(self):
        prompts = [{"text": TEXT}, {"ids": [5, 6]}]
        self.write("prompts", "\n\n".join(map(json.dumps, prompts)) + "\n")
        lines = self.run_tool("--", "encode-lines", self.path("run"), self.path("prompts"))
        ids = [json.loads(line)["ids"] for line in lines.splitlines()]
        self.assertEqual(ids, [self.tokenizer.encode(TEXT).ids, [5, 6]])
        results = self.run_tool("--", "decode-lines", self.path("run"), self.path("prompts"), standard_input=lines)
        self.assertEqual([json.loads(line) for line in results.splitlines()], prompts)
        for wrong in ("[5]", '{"text": 5}', '{"text": "a", "ids": []}', "{", '{"words": "a"}'):
            self.write("prompts", '{"text": "a"}\n' + wrong)
            message = self.run_tool("--", "encode-lines", self.path("run"), self.path("prompts"), expected=3)
            self.assertIn('prompts:2: expected a JSON object such as {"text": "Once"} or {"ids": [5, 6]}', message)

    def test_chats_are_those_of_transformers(self):
        theirs = transformers.PreTrainedTokenizerFast(tokenizer_object=self.tokenizer, bos_token="<s>", eos_token="<eos>")
        messages = [{"role": "user", "content": " What is\ndark? "}]
        config = {"bos_token": "<s>", "eos_token": {"content": "<eos>"}}
        for files in ({"chat_template__jinja": TEMPLATE, "tokenizer_config__json": config},
                      {"tokenizer_config__json": {**config, "chat_template": TEMPLATE}},
                      {"tokenizer_config__json": {**config, "chat_template": [{"name": "tools", "template": "no"}, {"name": "default", "template": TEMPLATE}]}}):
            self.setUp()
            self.begin_with_weights(**files)
            words = self.run_tool("--chat", "--", "encode", self.path("run"), messages[0]["content"]).split()
            expected = theirs.apply_chat_template(messages, chat_template=TEMPLATE, add_generation_prompt=True, return_dict=False)
            self.assertEqual([int(word) for word in words[1:-2]], expected)
            answer = [*words[1:-2], *map(str, self.tokenizer.encode("Light<eos>").ids)]
            text = self.run_tool("--chat", "--", "decode", self.path("run"), messages[0]["content"], standard_input="\n".join(answer))
            self.assertEqual(text, "Light\n")

    def test_chats_that_are_refused(self):
        message = self.run_tool("--chat", "--", "encode", self.path("run"), "a", expected=3)
        self.assertIn("--chat needs a chat template, and the run began without imported weights, so there is none", message)
        self.begin_with_weights()
        self.assertIn("neither chat_template.jinja nor", self.run_tool("--chat", "--", "encode", self.path("run"), "a", expected=3))
        for template, word in (("{{ raise_exception('only tools') }}", "only tools"), ("{% if %}", "cannot be used"),
                               ("{{ ''.__class__.__mro__ }}", "unsafe"), ("{{ messages.append(1) }}", "unsafe")):
            self.begin_with_weights(chat_template__jinja=template)
            with self.assertRaisesRegex(bad_input.BadInput, word):
                chat_template.render(self.path("weights # 1"), "a")
        self.begin_with_weights(tokenizer_config__json="[]")
        self.assertIn("expected a JSON object", self.run_tool("--", "stops", self.path("run"), expected=3))


if __name__ == "__main__":
    unittest.main()
