# SPDX-License-Identifier: MIT
"""Text to the ids of a run's tokenizer and back, and the ids that end a text."""
import filecmp
import glob
import itertools
import os
import re

from bad_input import BadInput
from tokenizer_files import end_of_model, load_tokenizer, read_object

UNFINISHED = "\ufffd"  # what a decoder writes for bytes that are no character, or not yet


class RunTokenizer:
    """The tokenizer of a run, and the folder of the imported weights that the run began with, if it did."""

    def __init__(self, run, is_chat):
        with open(os.path.join(run, "resolved.yaml"), encoding="utf-8", errors="surrogateescape") as file:
            resolved = file.read()
        self.data = setting(resolved, "data", "train")
        self.weights = setting(resolved, "checkpoint", "initial_weights")
        vocabulary = setting(resolved, "model", "vocabulary")
        self.vocabulary = int(vocabulary) if vocabulary.isdecimal() else 2**31  # a model without one is refused by the program
        # The tokenizer of the data, or else of the weights.
        self.folder = next((folder for folder in (run, self.weights) if folder and os.path.exists(os.path.join(folder, "tokenizer.json"))), None)
        self.tokenizer = load_tokenizer(os.path.join(self.folder, "tokenizer.json")) if self.folder else None
        self.is_chat = is_chat

    def encode(self, text, place):
        """Returns the ids of a prompt, and how many of them at its start are not shown: special tokens, or all of a chat."""
        start = [] if self.is_chat else self.start_ids()
        if self.is_chat:
            import chat_template

            text = chat_template.render(self.weights, text)
        try:
            ids = self.tokenizer.encode(text, add_special_tokens=False).ids
        except Exception as error:  # the package raises no narrower one, also for half of a surrogate pair
            raise BadInput(f"{place}: the tokenizer cannot encode the text: {error}") from error
        if start and ids[: len(start)] == start:  # the text has them itself
            start = []
        return start + ids, len(ids) if self.is_chat else len(start)

    def start_ids(self):
        """The special tokens that begin a text of imported weights. Data of `prepare text` have none."""
        if not self.weights:
            return []
        encoding = self.tokenizer.encode("a")
        pairs = zip(encoding.ids, encoding.special_tokens_mask, strict=True)
        return [token for token, is_special in itertools.takewhile(lambda pair: pair[1], pairs)]

    def decode(self, ids):
        return self.tokenizer.decode(ids, skip_special_tokens=self.is_chat)

    def stop_ids(self):
        """The eos_token_id of the weights, and the token that ended documents of the data. Without both, a token that is
        known to end texts. A tokenizer may have more tokens than the model, which are never sampled."""
        ids = ids_of(read_object(self.weights, "generation_config.json")) or ids_of(read_object(self.weights, "imported_config.json"))
        ids += self.document_end_ids()
        name = None if ids else end_of_model(self.weights or self.folder, self.tokenizer)
        ids = set(ids) if name is None else {self.tokenizer.token_to_id(name)}
        return sorted(token for token in ids if token < self.vocabulary)

    def document_end_ids(self):
        """The id in the file beside the data, if the data still have the tokenizer of the run."""
        file = next(iter(sorted(glob.glob(self.data))), self.data)
        folder = os.path.dirname(file) or "."
        run_file, data_file = (os.path.join(place, "tokenizer.json") for place in (self.folder, folder))
        is_same = os.path.exists(data_file) and filecmp.cmp(run_file, data_file, shallow=False)
        return ids_of(read_object(folder, os.path.basename(file) + ".json"), "end_of_document") if is_same else []


def setting(resolved, section, key):
    """Returns a text of resolved.yaml, where a value is plain or in double quotes, and a comment says where it comes from."""
    found = re.search(rf'^{section}:\n(?:  .*\n)*?  {key}: ("(?:[^"\\]|\\.)*"|.*?)(?:  #.*)?$', resolved, re.MULTILINE)
    text = found.group(1) if found else ""
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text


def is_id(value):
    return type(value) is int and 0 <= value < 2**31


def ids_of(values, key="eos_token_id"):
    given = values.get(key)
    return [value for value in (given if isinstance(given, list) else [given]) if is_id(value)]


class StreamingDecoder:
    """Decodes ids that come one by one. A token may change the text of those before it, such as a space at its start, so
    each is decoded with the tokens of the last call that had a text."""

    def __init__(self, decode):
        self.decode = decode
        self.ids = []
        self.shown_ids = 0

    def add(self, ids):
        """Returns the text that is new. It ends with a whole character; more of it comes with the ids that complete it."""
        self.ids += ids
        new = self.rest()
        if not new or new.endswith(UNFINISHED):
            return ""
        self.ids, self.shown_ids = self.ids[self.shown_ids :], len(self.ids) - self.shown_ids
        return new

    def rest(self):
        """Returns the text that was not returned yet."""
        return self.decode(self.ids)[len(self.decode(self.ids[: self.shown_ids])) :]
