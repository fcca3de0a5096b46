# SPDX-License-Identifier: MIT
"""Checks the tokenizer of a run: ids and texts, special tokens, chat templates and the tokens that end a text, beside transformers."""
import os
import random
import unittest

import transformers
from text_runs import TEXT, TOKENIZERS, TextRuns, byte_level, llama, llama3

from bad_input import BadInput
from text_tokens import RunTokenizer, StreamingDecoder, setting

# As those of Llama and Qwen: a loop with a break, tests of roles, `tojson`, a date, white space control.
TEMPLATE = """{{- bos_token }}{{ pad_token }}
{%- if tools is not none or documents is not none %}{{- raise_exception('no tools') }}{% endif %}
{%- set found = namespace(system=false) %}
{%- if messages[0].role == 'system' %}
    {%- set found.system = true %}
    {{- '<|system|>' + messages[0].content }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role not in ['user', 'assistant'] %}
        {{- raise_exception('no such role') }}
    {%- endif %}
    {{- '<|' + message.role + '|>' }}
    {% if loop.first %}
{{ message.content | trim }} {{ ['ä'] | tojson }} {{ {'b': 1, 'a': [2]} | tojson(indent=2) }} {{ strftime_now('%Y') }} {{ found.system }}
    {% endif %}
    {%- break %}
{%- endfor %}
{%- if add_generation_prompt %}{% generation %}<|assistant|>{% endgeneration %}{% endif %}"""


def content(text):
    return [{"role": "user", "content": text}]


class TextTokensTest(TextRuns):
    def text(self, is_chat=False):
        return RunTokenizer(self.run_folder, is_chat)

    def theirs(self, config):
        """The tokenizer that transformers makes of the same files."""
        self.tokenizer.save(os.path.join(self.weights, "tokenizer.json"))
        self.write(os.path.join(self.weights, "tokenizer_config.json"), {"tokenizer_class": "PreTrainedTokenizerFast", **config})
        return transformers.AutoTokenizer.from_pretrained(self.weights)

    def test_prompts_begin_as_in_transformers(self):
        for tokenizer in TOKENIZERS:
            for config in ({}, {"bos_token": "<s>"}, {"bos_token": "<s>", "add_bos_token": True}, {"bos_token": "<s>", "add_bos_token": False}):
                self.begin_with_weights(tokenizer)
                theirs = self.theirs(config)
                for prompt in (TEXT, " the", "-5", "<|user|>the", ""):
                    ids, hidden = self.text().encode(prompt, "here")
                    self.assertEqual(ids, theirs(prompt).input_ids, (tokenizer, config, prompt))
                    self.assertEqual(self.text().decode(ids[hidden:]), self.text().decode(theirs.encode(prompt, add_special_tokens=False)))

    def test_prompts_have_their_beginning_once(self):
        self.begin_with_weights(llama)
        self.assertEqual(self.text().encode("<s>the", "here"), (self.tokenizer.encode("<s>the", add_special_tokens=False).ids, 0))

    def test_data_have_no_beginning(self):
        """`prepare text` writes no <s>, so a model that began with random weights has never seen it."""
        self.begin(llama3)
        self.assertEqual(self.text().encode("the", "here"), (self.tokenizer.encode("the", add_special_tokens=False).ids, 0))

    def test_the_tokenizer_cuts_and_pads_nothing(self):
        self.tokenizer.enable_truncation(3)
        self.tokenizer.enable_padding(length=200)
        self.tokenizer.save(self.path("run/tokenizer.json"))
        self.assertEqual(self.text().decode(self.text().encode(TEXT, "here")[0]), TEXT)

    def test_weights_have_the_tokenizer_that_data_lack(self):
        self.begin_with_weights()
        os.rename(self.path("run/tokenizer.json"), os.path.join(self.weights, "tokenizer.json"))
        self.assertEqual(self.text().encode(TEXT, "here")[0], self.tokenizer.encode(TEXT).ids)
        os.remove(os.path.join(self.weights, "tokenizer.json"))
        self.assertIsNone(self.text().tokenizer)

    def test_streamed_text_is_the_whole_text(self):
        draw = random.Random(5)
        for tokenizer in TOKENIZERS:
            self.begin(tokenizer)
            text = self.text()
            for letters in (TEXT, " the  face ", "€🙂€", "🙂 \n\n the", ""):
                ids = self.tokenizer.encode(letters, add_special_tokens=False).ids
                stream = StreamingDecoder(text.decode)
                pieces = [stream.add([token]) for token in ids]
                self.assertEqual("".join(pieces) + stream.rest(), text.decode(ids), tokenizer)
                if letters == TEXT:
                    self.assertGreater(sum(map(bool, pieces)), len(ids) / 3)
                self.assertNotIn("\ufffd", "".join(pieces))
        self.begin(byte_level)
        text = self.text()
        for _ in range(100):  # any bytes, also those that are no UTF-8
            ids = [draw.randrange(self.tokenizer.get_vocab_size()) for _ in range(draw.randrange(40))]
            stream = StreamingDecoder(text.decode)
            self.assertEqual("".join(stream.add([token]) for token in ids) + stream.rest(), text.decode(ids))

    def test_stops_are_those_of_weights_and_documents(self):
        end, begin = self.tokenizer.token_to_id("<eos>"), self.tokenizer.token_to_id("<s>")
        self.assertEqual(self.text().stop_ids(), [end])  # a name that is known
        for generation, imported, tokens, expected in (
                ([7, 9], 5, "<s>", [7, 9]), (0, 5, "<s>", [0]), (None, 5, "<s>", [5]), (None, None, "<s>", [begin]), (None, None, None, [end]),
                (True, [-1, 2**40, "a"], None, [end])):
            self.begin_with_weights(generation_config__json={"eos_token_id": generation}, imported_config__json={"eos_token_id": imported},
                                    tokenizer_config__json={"eos_token": tokens and {"content": tokens}})
            self.assertEqual(self.text().stop_ids(), expected)
        self.write("data/train_00000.bin", "")
        self.write("data/train_00000.bin.json", {"end_of_document": 8})
        self.tokenizer.save(self.path("data/tokenizer.json"))
        self.begin_with_weights(generation_config__json={"eos_token_id": 7})
        self.assertEqual(self.text().stop_ids(), [7, 8])
        self.begin()
        self.assertEqual(self.text().stop_ids(), [8])
        self.write("data/tokenizer.json", "{}")  # the data were prepared anew
        self.assertEqual(self.text().stop_ids(), [end])
        self.begin_with_weights(generation_config__json={"eos_token_id": [399, 7, 400, 2**30]})
        self.assertEqual(self.text().stop_ids(), [7, 399])  # the tokenizer has more than the model

    def test_settings(self):
        for written, value in (("weights/llama", "weights/llama"), ('""', ""), ('"a  # b"', "a  # b"), (r'"a \"b\\"', 'a "b\\'), ('"a\tb"', "a\tb")):
            resolved = f"log:\n  initial_weights: no  # default\ncheckpoint:\n  keep: 2  # default\n  initial_weights: {written}  # config.yaml:1\n"
            self.assertEqual(setting(resolved, "checkpoint", "initial_weights"), value)
        for resolved in ("log:\n  every: 1  # default\n", "checkpoint:\n  keep: 2  # default\nlog:\n  initial_weights: no  # default\n"):
            self.assertEqual(setting(resolved, "checkpoint", "initial_weights"), "")

    def test_chats_are_those_of_transformers(self):
        config = {"bos_token": "<s>", "eos_token": {"content": "<eos>", "__type": "AddedToken"}, "pad_token": None}
        for tokenizer in TOKENIZERS:
            for files in ({"chat_template__jinja": TEMPLATE}, {"chat_template": TEMPLATE},
                          {"chat_template": [{"name": "tools", "template": "no"}, {"name": "default", "template": TEMPLATE}]}):
                self.begin_with_weights(tokenizer, **{name: value for name, value in files.items() if "__" in name})
                theirs = self.theirs({**config, **{name: value for name, value in files.items() if "__" not in name}})
                expected = theirs.apply_chat_template(content(" What is\ndark? "), add_generation_prompt=True, return_dict=False)
                text = self.text(is_chat=True)
                self.assertEqual(text.encode(" What is\ndark? ", "here"), (expected, len(expected)))
                self.assertEqual(expected.count(self.tokenizer.token_to_id("<s>")), 1)
                self.assertEqual(text.decode(self.tokenizer.encode("Light<eos>", add_special_tokens=False).ids), "Light")

    def test_special_tokens_of_older_models(self):
        self.begin_with_weights(chat_template__jinja="{{ bos_token }}a{{ eos_token }}",
                                special_tokens_map__json={"bos_token": "<s>", "eos_token": {"content": "<eos>"}})
        self.assertEqual(self.text(is_chat=True).encode("", "here")[0], self.tokenizer.encode("<s>a<eos>").ids)

    def test_chats_that_are_refused(self):
        for weights, words in (("", "the run began without imported weights, so there is none"), (self.weights, "neither chat_template.jinja nor")):
            self.begin(weights=weights)
            with self.assertRaisesRegex(BadInput, words):
                self.text(is_chat=True).encode("a", "here")
        for template, words in (
                ("{{ raise_exception('only tools') }}", "only tools"), ("{% if %}", "Expected an expression"),
                ("{{ 1 + 'a' }}", "unsupported operand"),
                ("{% for i in range(10000000) %}{% endfor %}", "Range too big"), ("{{ 1 // 0 }}", "by zero"),
                ("{{ 'a' * 10 ** 11 }}", "MemoryError"), ("{{ 'a' * 2 ** 25 }}", "renders 33554432 characters, expected at most 16777216"),
                ("{{ ''.__class__.__mro__ }}", "unsafe"), ("{{ messages.append(1) }}", "unsafe"), ("{{ strftime_now.__globals__.os }}", "unsafe"),
                ("{{ raise_exception.__globals__['os'].system('true') }}", "unsafe"),
                ("{{ ('{0.__class__.__mro__}' | attr('format'))(messages) }}", "unsafe"),
                ("{% set n = namespace() %}{% set n.__class__ = 1 %}", "unsafe"), ("{{ namespace(_a=1) }}", "unsafe"),
                ("{{ messages | tojson(cls=dict) }}", "unexpected keyword argument 'cls'"), ("{% include 'tokenizer.json' %}", "no loader")):
            self.begin_with_weights(chat_template__jinja=template)
            with self.assertRaisesRegex(BadInput, words, msg=template):
                self.text(is_chat=True).encode("a", "here")
        with open(os.path.join(self.weights, "chat_template.jinja"), "wb") as file:
            file.write(b"\xff")
        with self.assertRaisesRegex(BadInput, "chat_template.jinja: expected text in UTF-8"):
            self.text(is_chat=True).encode("a", "here")

    def test_files_that_are_refused(self):
        for name in ("tokenizer_config.json", "generation_config.json", "special_tokens_map.json"):
            for wrong in ("[]", "{", "[" * 100_000):
                self.begin_with_weights(**{name.replace(".", "__"): wrong})
                with self.assertRaisesRegex(BadInput, name + ": expected a JSON object"):
                    self.text().stop_ids()
        self.begin()
        with self.assertRaisesRegex(BadInput, "here: the tokenizer cannot encode"):
            self.text().encode("\ud800", "here")
        self.write("run/tokenizer.json", "{}")
        with self.assertRaisesRegex(BadInput, "run/tokenizer.json: cannot be read as the tokenizer.json of a model"):
            self.text()


if __name__ == "__main__":
    unittest.main()
