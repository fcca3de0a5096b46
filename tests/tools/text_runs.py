# SPDX-License-Identifier: MIT
"""Folders of a run and of imported weights, with tokenizers built as those of the families of decoders are."""
import json
import os
import sys
import tempfile
import unittest

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

sys.path[:0] = ["tools/text", "tools"]

TEXT = "Darkness was upon\nthe face of the deep: äöü € 🙂\n"


def byte_level():
    """As GPT-2, Qwen, OLMo 2 and `prepare text --tokenizer bpe`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=290, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False)
    tokenizer.train_from_iterator([TEXT], trainer)
    tokenizer.add_special_tokens(["<s>", "<eos>", "<|user|>", "<|assistant|>"])
    return tokenizer


def with_beginning(tokenizer, *before):
    """As Llama, Mistral and Gemma: <s> begins a text."""
    beginning = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))])
    tokenizer.post_processor = processors.Sequence([*before, beginning]) if before else beginning
    return tokenizer


def llama3():
    return with_beginning(byte_level(), processors.ByteLevel(trim_offsets=False))


def sentence_pieces(normalizer, decoder):
    """Words with the space before them. Letters that the text for training lacks are bytes."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    special = ["<unk>", "<s>", "<eos>", "<|user|>", "<|assistant|>"]
    trainer = trainers.BpeTrainer(vocab_size=310, special_tokens=special + [f"<0x{byte:02X}>" for byte in range(256)], show_progress=False)
    tokenizer.train_from_iterator(["▁" + word for word in TEXT.split() if word.isascii()], trainer)
    values = json.loads(tokenizer.to_str())  # bytes are in the vocabulary, and are no special tokens
    values["added_tokens"] = [token for token in values["added_tokens"] if not token["content"].startswith("<0x")]
    tokenizer = with_beginning(Tokenizer.from_str(json.dumps(values)))
    tokenizer.normalizer, tokenizer.decoder = normalizer, decoder
    return tokenizer


def llama():
    return sentence_pieces(
        normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
        decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]))


def gemma():
    return sentence_pieces(normalizers.Replace(" ", "▁"), decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]))


TOKENIZERS = (byte_level, llama3, llama, gemma)


class TextRuns(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        for name in ("run", "data", 'weights # "1"'):
            os.mkdir(self.path(name))
        self.run_folder, self.weights = self.path("run"), self.path('weights # "1"')
        self.begin()

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text if isinstance(text, str) else json.dumps(text))
        return self.path(name)

    def begin(self, tokenizer=byte_level, weights="", vocabulary=400):
        """A run as the trainer leaves it: its tokenizer and its configuration, each value with its origin."""
        self.tokenizer = tokenizer()
        self.tokenizer.save(self.path("run/tokenizer.json"))
        quoted = weights.replace("\\", "\\\\").replace('"', '\\"')
        self.write("run/resolved.yaml", f"""model:
  type: transformer  # default
  vocabulary: {vocabulary}  # config.yaml:1
data:
  train: {self.path('data')}/train_*.bin  # config.yaml:2
checkpoint:
  every: 0  # default
  initial_weights: "{quoted}"  # config.yaml:3
log:
  every: 1  # default
""")

    def begin_with_weights(self, tokenizer=byte_level, **files):
        """The run began with weights that have these files, whose dots are written as two underscores."""
        self.begin(tokenizer, self.weights)
        for name in os.listdir(self.weights):
            os.remove(os.path.join(self.weights, name))
        for name, value in files.items():
            self.write(os.path.join(self.weights, name.replace("__", ".")), value)
