# SPDX-License-Identifier: MIT
"""Checks which documents prepare text finds in files, which token ends each, and what it refuses."""
import gzip
import itertools
import json
import os
import resource
import shutil
import subprocess
import sys
import unittest

import numpy
import pyarrow
import pyarrow.parquet
import tokenizers

from prepared_text import TMP, PreparedTextCase, contents

END = 256  # of byte tokens
TEXTS = ["In the beginning", "äöü € 𝄞", "a", "two\nlines\n", " ", "\u2028", "the end of it all"]


def byte_ids(text):
    return list(text.encode()) + [END]


def json_lines(texts, field="text", end="\n"):
    return end.join(json.dumps({"id": 1, field: text}) for text in texts).encode()


def tokenizer_with(*names):
    """A tokenizer of a model in which each byte is a token, with these special tokens."""
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    model.train_from_iterator([], tokenizers.trainers.BpeTrainer(vocab_size=256, initial_alphabet=alphabet, show_progress=False))
    model.add_special_tokens(list(names))
    return model


class PrepareDocumentsTest(PreparedTextCase):
    def parquet(self, name, columns, rows_in_group=3):
        path = os.path.join(TMP, name)
        pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=rows_in_group)
        return path

    def all_documents(self):
        return self.documents("train.bin") + self.documents("validation.bin")

    def test_a_file_is_a_document(self):
        a, b, c = self.write("a", b"a" * 100), self.write("b", b"b" * 50), self.write("c", b"c" * 50)
        printed = self.prepare("--input", a, b, c, "--validation", "0.4")
        self.assertEqual(self.documents("train.bin"), [byte_ids("a" * 100), [ord("b")] * 20])
        self.assertEqual(self.documents("validation.bin"), [byte_ids("b" * 30), byte_ids("c" * 50)])
        sidecar = self.read("validation.bin")[1]
        self.assertEqual([sidecar[key] for key in ("bytes", "vocabulary", "largest_token", "documents", "end_of_document")], [80, 257, 256, 2, END])
        self.assertIn("train: 120 bytes of text in 2 documents, 121 tokens of a vocabulary of 257, 1 file in", printed)
        self.assertIn("token 256 ends each document", printed)

    def test_nothing_ends_the_only_document(self):
        printed = self.prepare("--input", self.write("a", b"a" * 100))
        self.assertEqual((self.documents("train.bin"), self.documents("validation.bin")), ([[ord("a")] * 90], [[ord("a")] * 10]))
        self.assertEqual([self.read("train.bin")[1][key] for key in ("vocabulary", "end_of_document")], [256, None])
        self.assertNotIn("ends each", printed)

    def test_lines(self):
        for text, documents in ((b"one\ntwo\n\nthree\n", ["one", "two", "three"]), (b"one\r\n\r\ntwo\r\nthree", ["one", "two", "three"]),
                                (b"one\r\r\ntwo\r", ["one\r", "two"]),
                                (b"one\n \t\n  two \nthree\n\n\n", ["one", "  two ", "three"]), (b"\n\none\ntwo", ["one", "two"])):
            with self.subTest(text):
                shutil.rmtree(self.folder, ignore_errors=True)
                printed = self.prepare("--input", self.write("lines", text), "--documents", "lines", "--validation", "0.3")
                self.assertEqual(self.all_documents(), [byte_ids(line) for line in documents])
                self.assertEqual("empty document" in printed, b"\n\n" in text or b"\r\n\r\n" in text or b"\t\n" in text)

    def test_bytes_of_lines_need_not_be_characters(self):
        self.prepare("--input", self.write("lines", b"caf\xe9\n\xff\xfe\n\0\n"), "--documents", "lines")
        self.assertEqual(self.all_documents(), [[*b"caf\xe9", END], [0xFF, 0xFE, END], [0, END]])

    def test_a_document_is_not_cut(self):
        """The last part of the text begins with the document that reaches over the share, but never with the first."""
        lines = self.write("lines", b"12345\n12345\n12345\n12345\n")
        for share, count in (("0.01", 1), ("0.25", 1), ("0.26", 2), ("0.5", 2), ("0.7", 3), ("0.99", 3)):
            self.prepare("--input", lines, "--documents", "lines", "--validation", share, "--overwrite")
            self.assertEqual((len(self.documents("train.bin")), len(self.documents("validation.bin"))), (4 - count, count), share)

    def test_records_of_every_kind_give_the_same_files(self):
        """And so do records that lie in any number of files."""
        inputs = [[self.write("all.jsonl", json_lines(TEXTS))], [self.write("crlf.jsonl", json_lines(TEXTS, end="\r\n\r\n") + b"\r\n")],
                  [self.write("all.jsonl.gz", gzip.compress(json_lines(TEXTS)))], [self.write("all.ndjson", json_lines(TEXTS))],
                  [self.write("all.ndjson.gz", gzip.compress(json_lines(TEXTS)))], [self.parquet("all.parquet", {"n": range(len(TEXTS)), "text": TEXTS})]]
        for count in (1, 3, 6):
            inputs.append([self.write("first.jsonl.gz", gzip.compress(json_lines(TEXTS[:count])[:5]) + gzip.compress(json_lines(TEXTS[:count])[5:])),
                           self.parquet("rest.parquet", {"text": TEXTS[count:]})])
        for tokenizer in (("bytes",), ("bpe", "--vocabulary", "300")):
            first = None
            for paths in inputs:
                shutil.rmtree(self.folder, ignore_errors=True)
                self.prepare("--input", *paths, "--validation", "0.4", "--tokenizer", *tokenizer)
                if tokenizer == ("bytes",):
                    self.assertEqual(self.all_documents(), [byte_ids(text) for text in TEXTS])
                files = {name: content for name, content in self.prepared().items() if not name.endswith(".bin.json")}
                first = first or files
                self.assertEqual(files, first, paths)

    def test_json_is_text(self):
        path = self.write("all.json", b'["one", "two"]')
        self.assertIn(f"{path} is read as plain text", self.prepare("--input", path))
        self.assertEqual(b"".join(map(bytes, self.all_documents())), b'["one", "two"]')
        self.assertNotIn("plain text", self.prepare("--input", self.write("a.txt", b"some text"), "--overwrite"))

    def test_field(self):
        for path in (self.write("field.jsonl", json_lines(TEXTS, "content")), self.parquet("field.parquet", {"text": range(len(TEXTS)), "content": TEXTS})):
            self.prepare("--input", path, "--field", "content", "--overwrite")
            self.assertEqual(self.all_documents(), [byte_ids(text) for text in TEXTS])

    def test_empty_documents_are_left_out(self):
        texts = ["", "one", "", "", "two", ""]
        for path in (self.write("empty.jsonl", json_lines(texts)), self.parquet("empty.parquet", {"text": texts})):
            self.assertIn("4 empty documents left out", self.prepare("--input", path, "--overwrite"))
            self.assertEqual(self.all_documents(), [byte_ids("one"), byte_ids("two")])
            self.assertEqual(self.read("train.bin")[1]["bytes"], 3)

    def test_byte_pairs_have_an_end(self):
        """It is the last id. The same letters in a text are text."""
        texts = ["the cat sat on the mat"] * 20 + ["the <|endoftext|> cat"]
        self.prepare("--input", self.write("a.jsonl", json_lines(texts)), "--tokenizer", "bpe", "--vocabulary", "280")
        tokenizer = tokenizers.Tokenizer.from_file(os.path.join(self.folder, "tokenizer.json"))
        sidecar = self.read("train.bin")[1]
        end = sidecar["end_of_document"]
        self.assertEqual((end, tokenizer.token_to_id("<|endoftext|>")), (sidecar["vocabulary"] - 1, end))
        self.assertLessEqual(sidecar["vocabulary"], 280)
        documents = self.all_documents()
        self.assertEqual([tokenizer.decode(ids[:-1], skip_special_tokens=False) for ids in documents], texts)
        self.assertEqual([ids.index(end) for ids in documents], [len(ids) - 1 for ids in documents])

    def test_a_vocabulary_has_room_for_the_end(self):
        path = self.write("a.jsonl", json_lines(TEXTS))
        self.assertIn("at least 257", self.prepare("--input", path, "--tokenizer", "bpe", "--vocabulary", "256", code=3))
        self.prepare("--input", path, "--tokenizer", "bpe", "--vocabulary", "257")
        self.assertEqual(self.all_documents()[2][-1], 256)

    def test_end_of_a_model(self):
        """The eos_token beside the tokenizer, or a name that is known, or none."""
        path = os.path.join(TMP, "model", "tokenizer.json")
        config = os.path.join(TMP, "model", "tokenizer_config.json")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        text = self.write("a.jsonl", json_lines(["one", "two"]))
        cases = ((["<pad>", "</s>", "<|endoftext|>"], None, 258), (["<pad>", "</s>"], None, 257), (["<s>", "<end>"], {"eos_token": "<end>"}, 257),
                 (["<end>", "</s>"], {"eos_token": {"content": "<end>", "lstrip": False}}, 256), (["<s>", "</s>"], {"eos_token": "<gone>"}, 257),
                 (["<s>", "</s>"], {"eos_token": None}, 257), (["<pad>"], {}, None), (["<pad>"], None, None))
        for names, content, end in cases:
            with self.subTest(names=names, content=content):
                tokenizer_with(*names).save(path)
                if os.path.exists(config):
                    os.unlink(config)
                if content is not None:
                    self.write(config, json.dumps(content).encode())
                printed = self.prepare("--input", text, "--tokenizer", path, "--overwrite")
                self.assertEqual(self.read("train.bin")[1]["end_of_document"], end)
                self.assertEqual([len(ids) for ids in self.all_documents()], [3, 3] if end is None else [4, 4])
                self.assertIn("no token ends a document" if end is None else f"token {end} {names[end - 256]} ends each", printed)
        self.write(config, b"[1")
        self.assertIn("tokenizer_config.json: expected a JSON object", self.prepare("--input", text, "--tokenizer", path, "--overwrite", code=3))

    def test_documents_without_tokens_are_none(self):
        model = tokenizer_with()
        model.normalizer = tokenizers.normalizers.Strip()
        path = os.path.join(TMP, "strip.json")
        model.save(path)
        self.prepare("--input", self.write("a.jsonl", json_lines(["one", " ", "two", "three"])), "--tokenizer", path, "--validation", "0.3")
        self.assertEqual([len(ids) for ids in self.all_documents()], [3, 3, 5])

    def test_shards(self):
        """A document goes whole into the next file. One that is larger than a piece of text is cut."""
        limit = (1 << 24) + 1
        texts = ["a" * 10_000_000, "b" * 9_000_000, "c" * (limit + 4), "d" * (limit - 1), "e" * 100]
        path = self.write("a.jsonl", json_lines(texts))
        self.prepare("--input", path, "--shard-tokens", str(limit), "--validation", "0.000001")
        names = sorted(name for name in os.listdir(self.folder) if name.startswith("train") and name.endswith(".bin"))
        lengths = [[len(ids) for ids in self.documents(name)] for name in names]
        self.assertEqual(lengths, [[10_000_001], [9_000_001], [limit - 1], [6], [limit]])

    def test_many_documents(self):
        lines = b"".join(b"%d\n" % i for i in range(150_000))  # more than are written at a time
        self.prepare("--input", self.write("lines", lines), "--documents", "lines")
        self.assertEqual(self.all_documents(), [byte_ids(str(i)) for i in range(150_000)])

    def test_bad_records(self):
        good = b'{"text": "x"}\n'
        for line, words in ((b"{", "is not a line of JSON"), (b"text", "is not a line of JSON"), (b'{"text": "x"} {}', "is not a line of JSON"),
                            (b'{"text": "caf\xe9"}', "is not a line of JSON ('utf-8' codec"), (b"[" * 100_000, "is not a line of JSON"),
                            (b'{"n": ' + b"9" * 10_000 + b', "text": "x"}', "is not a line of JSON"), (b"[1]", "expected a JSON object with the field 'text', got list"),
                            (b'"text"', "got str"), (b"{}", "has no field 'text', only none"), (b'{"a": 1, "b\\u0007": 2}', "has no field 'text', only 'a', 'b\\x07'; give another with --field"),
                            (b'{"text": 5}', "the text is int, expected a string"), (b'{"text": null}', "the text is missing (null)"),
                            (b'{"text": "\\ud800"}', "character 0 of the text is not a Unicode character")):
            with self.subTest(line[:40]):
                path = self.write("bad.jsonl", good * 2 + b"\n" + line + b"\n" + good)
                errors = self.prepare("--input", self.write("good.jsonl", good), path, code=3)
                self.assertIn(f"{path}:4: ", errors)
                self.assertIn(words, errors)
                self.assertFalse(os.path.exists(self.folder))

    def test_bad_gzip(self):
        lines = numpy.random.default_rng(1).integers(32, 127, 200_000, dtype=numpy.uint8).tobytes().replace(b"\\", b"x").replace(b'"', b"y")
        whole = gzip.compress(json_lines([lines[i:i + 100].decode() for i in range(0, len(lines), 100)]))
        flipped = bytearray(whole)
        flipped[-6] ^= 1  # in the checksum
        for content, words in ((whole[:-1], "is truncated"), (whole[:1000], "is truncated"), (whole[:15], "is truncated"), (b"\x1f\x8b", "is truncated"),
                               (json_lines(TEXTS), "is damaged gzip data"), (bytes(flipped), "is damaged gzip data"),
                               (whole[:9] + b"\xff" * 50 + whole[59:], "is damaged gzip data"), (whole + b"more", "is damaged gzip data")):
            path = self.write("bad.jsonl.gz", content)
            errors = self.prepare("--input", path, code=3)
            self.assertIn(f"{path}: {words}", errors)

    def test_a_bomb_of_gzip_is_refused_in_bounded_memory(self):
        packed = gzip.compress(bytes(1 << 30), 9)
        self.assertLess(len(packed), 2 << 20)
        path = self.write("bomb.jsonl.gz", packed)
        command = [sys.executable, "tools/text/prepare_text.py", "--input", path, "--output", self.folder]
        result = subprocess.run(command, capture_output=True, text=True, check=False,
                                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)))
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("bomb.jsonl.gz:1: the line is longer than", result.stderr)

    def test_bad_parquet(self):
        text = ["x", "y"]
        whole = contents(self.parquet("whole.parquet", {"text": TEXTS}))
        for path, words in ((self.write("a.parquet", whole[:-20]), "cannot be read as Parquet"), (self.write("b.parquet", b"x" * 100), "cannot be read as Parquet"),
                            (self.write("d.parquet", whole[:4] + bytes(40) + whole[44:]), "cannot be read as Parquet"),
                            (self.parquet("e.parquet", {"content": text}), "has no column 'text', only 'content'"),
                            (self.parquet("f.parquet", {"text": [1, 2]}), "row 0: the text is int, expected a string"),
                            (self.parquet("g.parquet", {"text": ["x", None]}), "row 1: the text is missing (null)"),
                            (self.parquet("h.parquet", {"text": [b"x", b"\xff"]}), "row 0: the text is bytes, expected a string")):
            errors = self.prepare("--input", path, code=3)
            self.assertIn(f"{path}: {words}", errors)
            self.assertEqual(len(errors.splitlines()), 1, errors)

    def test_bad_lines(self):
        path = self.write("latin", b"one\n\ncaf\xe9\n")
        self.assertIn(f"{path}:3: byte 3 is not UTF-8", self.prepare("--input", path, "--documents", "lines", "--tokenizer", "bpe", "--validation", "0.9", code=3))
        for content, words in ((b"only one\n", "8 bytes of text in 1 document are too few"), (b"\n \n", "0 bytes of text in 0 documents are too few")):
            self.assertIn(words, self.prepare("--input", self.write("few", content), "--documents", "lines", "--overwrite", code=3))

    def test_wrong_use(self):
        text, records = self.write("text", b"abc" * 100), self.write("a.jsonl", json_lines(TEXTS))
        for arguments in ((text, records), (records, "--documents", "lines"), (text, "--field", "content"), (text, "--documents", "words")):
            self.prepare("--input", *arguments, code=2)

    def test_overwrite_removes_old_ends(self):
        text = self.write("text", b"abc" * 100)
        self.prepare("--input", text)
        self.write(os.path.join(self.folder, "train_00001.bin"), contents(os.path.join(self.folder, "train.bin")))
        self.write(os.path.join(self.folder, "train_00001.bin.documents"), b"old")
        self.prepare("--input", text, "--overwrite")
        self.assertEqual([name for name in os.listdir(self.folder) if "00001" in name], [])

    def test_order_of_files_is_kept(self):
        paths = {name: self.write(name, name.encode() * 10) for name in "abc"}
        for order in itertools.permutations("abc"):
            self.prepare("--input", *(paths[name] for name in order), "--validation", "0.5", "--overwrite")
            text = [[byte for byte in ids if byte != END] for ids in self.all_documents()]
            self.assertEqual(bytes(sum(text, [])), b"".join(name.encode() * 10 for name in order))


if __name__ == "__main__":
    unittest.main()
