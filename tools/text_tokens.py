# SPDX-License-Identifier: MIT
"""Text to token ids and back, with the tokenizer of a run: that of its data, tokenizer.json in its folder.

text_tokens.py [--chat] -- encode RUN TEXT        prints the options of `generate` for this prompt
text_tokens.py [--chat] -- decode RUN TEXT        reads ids from its input and prints text; with --chat without the prompt
text_tokens.py [--chat] -- stops RUN              prints the options of `generate` for the tokens that end a text
text_tokens.py [--chat] -- encode-lines RUN FILE  prints a file of prompts with ids in place of text
text_tokens.py [--chat] -- decode-lines RUN FILE  reads the results of these prompts and prints them as text
"""
import argparse
import json
import os
import re
import sys
import unicodedata

import tokenizers

import bad_input
import chat_template
from prepare_text import end_of_model


class Text:
    """The tokenizer of a run, and the folder of the imported weights that it began with, if it did."""

    def __init__(self, run, is_chat):
        self.path = os.path.join(run, "tokenizer.json")
        self.tokenizer = tokenizers.Tokenizer.from_file(self.path)
        self.weights = initial_weights(os.path.join(run, "resolved.yaml"))
        self.is_chat = is_chat

    def encode(self, text):
        if self.is_chat:
            text = chat_template.render(self.weights, text)
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids, prompt):
        # A chat shows the answer alone.
        return self.tokenizer.decode(ids[len(prompt) :] if self.is_chat else ids, skip_special_tokens=self.is_chat)

    def stops(self):
        """The eos_token_id of the generation_config.json of the weights, or else the token that ends documents."""
        given = chat_template.read_object(self.weights, "generation_config.json").get("eos_token_id")
        ids = [value for value in (given if isinstance(given, list) else [given]) if type(value) is int]
        if not ids:
            beside = os.path.join(self.weights, "tokenizer.json") if self.weights else self.path
            name = end_of_model(beside, self.tokenizer)
            ids = [] if name is None else [self.tokenizer.token_to_id(name)]
        return ids


def initial_weights(resolved):
    """Returns checkpoint.initial_weights of the configuration of a run, or an empty text."""
    with open(resolved, encoding="utf-8") as file:
        found = re.search(r'^  initial_weights: ("(?:[^"\\]|\\.)*"|.*?)(?:  #.*)?$', file.read(), re.MULTILINE)
    text = found.group(1) if found else ""
    return json.loads(text) if text.startswith('"') else text


def printable(text):
    """A model may write any character, and a terminal obeys control characters."""
    if not sys.stdout.isatty():
        return text
    return "".join("?" if unicodedata.category(letter) == "Cc" and letter not in "\n\t" else letter for letter in text)


def prompts_of(path):
    with open(path, encoding="utf-8") as file:
        lines = [(number, line) for number, line in enumerate(file, 1) if line.strip()]
    for number, line in lines:
        try:
            prompt = json.loads(line)
        except ValueError:
            prompt = None
        if not isinstance(prompt, dict) or len(prompt) != 1 or not isinstance(prompt.get("text", prompt.get("ids")), (str, list)):
            raise bad_input.BadInput(f'{path}:{number}: expected a JSON object such as {{"text": "Once"}} or {{"ids": [5, 6]}}')
        yield prompt


def options(name, ids):
    return [name, *ids] if ids else []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--chat", action="store_true")
    parser.add_argument("action", choices=("encode", "decode", "stops", "encode-lines", "decode-lines"))
    parser.add_argument("run")
    parser.add_argument("what", nargs="?")
    arguments = parser.parse_args()
    text, what = Text(arguments.run, arguments.chat), arguments.what

    def ids_of(prompt):
        return text.encode(prompt["text"]) if "text" in prompt else prompt["ids"]

    if arguments.action == "encode":
        print(*options("--prompt-ids", text.encode(what)), *options("--stop-ids", text.stops()))
    elif arguments.action == "decode":
        print(printable(text.decode([int(line) for line in sys.stdin], text.encode(what))))
    elif arguments.action == "stops":
        print(*options("--stop-ids", text.stops()))
    elif arguments.action == "encode-lines":
        for prompt in prompts_of(what):
            print(json.dumps({"ids": ids_of(prompt)}))
    else:
        for prompt, line in zip(prompts_of(what), sys.stdin, strict=True):
            result = json.loads(line)
            if "text" in prompt:
                result = {"text": text.decode(result["ids"], ids_of(prompt))}
            print(json.dumps(result))


if __name__ == "__main__":
    bad_input.run(main)
