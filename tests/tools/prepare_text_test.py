# SPDX-License-Identifier: MIT
"""Checks prepare text: token files give the text back, and bad text is refused."""
import os
import shutil
import sys
import unittest
import unittest.mock

import numpy
import tokenizers

from prepared_text import TMP, PreparedTextCase

sys.path[:0] = ["tools/text", "tools"]
import prepare_text  # noqa: E402
import text_documents  # noqa: E402

WORDS = ("In the beginning God created the heaven and the earth. And the earth was without form, and void; "
         "äöü € 𝄞 and darkness was upon the face of the deep.\n")


class PrepareTextTest(PreparedTextCase):
    def test_bytes(self):
        text = bytes(range(256)) * 40 + b"x"
        self.prepare("--input", self.write("text", text))
        train, sidecar = self.read("train.bin")
        validation, _ = self.read("validation.bin")
        cut = len(text) * 9 // 10
        self.assertEqual(train.astype(numpy.uint8).tobytes(), text[:cut])
        self.assertEqual(validation.astype(numpy.uint8).tobytes(), text[cut:])
        self.assertEqual((sidecar["bytes"], sidecar["tokenizer"], sidecar["vocabulary"]), (cut, "bytes", 256))
        self.assertEqual(sidecar["sources"], ["text"])

    def test_byte_pairs_decode_to_the_text(self):
        text = (WORDS * 200).encode()
        self.prepare("--input", self.write("text", text), "--tokenizer", "bpe", "--vocabulary", "400", "--validation", "0.313")
        tokenizer = tokenizers.Tokenizer.from_file(os.path.join(self.folder, "tokenizer.json"))
        decoded, total = "", 0
        for name in ("train.bin", "validation.bin"):
            ids, sidecar = self.read(name)
            part = tokenizer.decode(ids.tolist())
            self.assertEqual(len(part.encode()), sidecar["bytes"])
            self.assertLess(len(ids), sidecar["bytes"] / 2)
            self.assertLess(ids.max(), sidecar["vocabulary"])
            self.assertEqual(sidecar["vocabulary"], tokenizer.get_vocab_size())
            decoded += part
            total += sidecar["bytes"]
        self.assertEqual(decoded, text.decode())
        self.assertEqual(total, len(text))

    def test_tokenizer_of_a_model(self):
        """The ids are those of the model, without special tokens around the text, and nothing is cut off."""
        model = tokenizers.Tokenizer(tokenizers.models.BPE())
        model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        model.decoder = tokenizers.decoders.ByteLevel()
        alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
        model.train_from_iterator([WORDS], tokenizers.trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False))
        model.add_special_tokens(["<begin>"])
        vocabulary = model.get_vocab_size()
        model.post_processor = tokenizers.processors.TemplateProcessing("<begin> $A", special_tokens=[("<begin>", vocabulary - 1)])
        text = WORDS * 20
        expected = model.encode(text, add_special_tokens=False).ids
        model.enable_truncation(5)
        model.enable_padding(length=9)
        path = os.path.join(TMP, "model.json")
        model.save(path)
        for extra in ((), ("--overwrite",)):  # the second time from the copy beside the token files
            self.prepare("--input", self.write("text", text.encode()), "--tokenizer", path, "--validation", "0.5", *extra)
            (train, sidecar), (validation, _) = self.read("train.bin"), self.read("validation.bin")
            self.assertEqual(train.tolist() + validation.tolist(), expected)
            self.assertEqual((sidecar["tokenizer"], sidecar["vocabulary"]), (os.path.basename(path), vocabulary))
            path = os.path.join(self.folder, "tokenizer.json")
        self.assertEqual(tokenizers.Tokenizer.from_file(path).decode(train.tolist() + validation.tolist()), text)

    def test_pieces_do_not_cut_characters(self):
        with unittest.mock.patch.object(text_documents, "CHUNK_BYTES", 10):
            for text in ("€" * 100, "ä€𝄞x" * 50, "line\n" * 30, "a\n" + "𝄞" * 40, "x"):
                for cut in range(4):
                    source = text_documents.WholeFiles([self.write("text", b"y" * cut + text.encode())])
                    texts = list(prepare_text.TextTokenizer.texts(source.pieces(0, source.bytes)))
                    self.assertEqual("".join(text for _, text, _ in texts), "y" * cut + text)
                    self.assertEqual([size for size, _, _ in texts], [len(text.encode()) for _, text, _ in texts])
                    self.assertEqual([ends for _, _, ends in texts], [False] * (len(texts) - 1) + [True])

    def test_character_boundary(self):
        source = text_documents.WholeFiles([self.write("text", "aä€𝄞x".encode())])
        self.assertEqual([source.character_boundary(i) for i in range(12)], [0, 1, 3, 3, 6, 6, 6, 10, 10, 10, 10, 11])

    def test_no_file_has_more_tokens_than_it_may(self):
        """Whatever a tokenizer makes of a piece of text."""
        tokenizer = prepare_text.ByteTokenizer(has_end=True)
        for tokens, fits in ((4, True), (5, False)):  # one more is the end of the document
            arguments = unittest.mock.Mock(shard_tokens=5, output=TMP)
            chunks = [(tokens, numpy.zeros(tokens, dtype=numpy.uint8), True)]
            if fits:
                self.assertEqual(prepare_text.write_split("most", chunks, tokenizer, arguments, []), (1, 5, 1))
            else:
                with self.assertRaisesRegex(prepare_text.BadInput, "are 6 tokens, and a file has at most 5; give larger --shard-tokens"):
                    prepare_text.write_split("most", chunks, tokenizer, arguments, [])

    def test_a_large_vocabulary_is_wide(self):
        random = numpy.random.default_rng(1)
        words = random.integers(97, 123, (60_000, 7), dtype=numpy.uint8)
        text = b" ".join(row.tobytes() for row in words)
        self.prepare("--input", self.write("text", text), "--tokenizer", "bpe", "--vocabulary", "70000")
        ids, sidecar = self.read("train.bin")
        self.assertEqual(ids.dtype, numpy.uint32 if sidecar["vocabulary"] > 65536 else numpy.uint16)
        self.assertGreater(sidecar["vocabulary"], 65536)

    def test_shards(self):
        text = numpy.random.default_rng(1).integers(0, 256, 40_000_000, dtype=numpy.uint8).tobytes()
        self.prepare("--input", self.write("text", text), "--shard-tokens", str(prepare_text.LEAST_SHARD_TOKENS), "--validation", "0.01")
        names = sorted(name for name in os.listdir(self.folder) if name.startswith("train") and name.endswith(".bin"))
        self.assertEqual(names, ["train_00000.bin", "train_00001.bin", "train_00002.bin"])
        joined = b"".join(self.read(name)[0].astype(numpy.uint8).tobytes() for name in names)
        self.assertEqual(joined, text[: len(text) * 99 // 100])

    def test_bad_text(self):
        good = self.write("good", b"abc" * 100)
        for arguments, word in (((self.write("empty", b""),), "is empty"), (("/nowhere",), "No such file"), ((TMP,), "is not a file"),
                                ((good, "--tokenizer", "/nowhere.json"), "/nowhere.json: cannot be read as the tokenizer.json"),
                                ((good, "--tokenizer", self.write("x.json", b"{}")), "x.json: cannot be read as the tokenizer.json"),
                                ((good, self.write("empty", b"")), "is empty"), ((self.write("one", b"x"),), "too few"),
                                ((self.write("latin", b"caf\xe9 \n" * 9), "--tokenizer", "bpe"), "latin: byte 3 is not UTF-8")):
            self.assertIn(word, self.prepare("--input", *arguments, code=3))
            self.assertEqual([name for name in os.listdir(self.folder) if name.endswith((".bin", ".tmp"))]
                             if os.path.exists(self.folder) else [], [])
            shutil.rmtree(self.folder, ignore_errors=True)

    def test_old_token_files_are_not_mixed_with_new_ones(self):
        good = self.write("good", b"abc" * 100)
        self.prepare("--input", good)
        self.assertIn("--overwrite", self.prepare("--input", good, code=3))
        self.prepare("--input", good, "--overwrite", "--validation", "0.5")
        self.assertEqual(len(self.read("train.bin")[0]), 150)

    def test_overwrite_keeps_what_is_no_token_file(self):
        good = self.write("good", b"abc" * 100)
        self.prepare("--input", good)
        kept = [os.path.join(self.folder, name) for name in ("pytorch_model.bin", "pytorch_model.bin.json", "train_old.bin")]
        for path in kept:
            self.write(path, b"weights")
        self.prepare("--input", good, "--overwrite")
        self.assertEqual([path for path in kept if not os.path.exists(path)], [])
        other = self.write(os.path.join(self.folder, "train_00001.bin"), b"no token file")
        self.assertIn("train_00001.bin: is not a token file", self.prepare("--input", good, "--overwrite", code=3))
        self.assertEqual(len(self.read("train.bin")[0]), 270, "nothing may be removed if something is refused")
        os.unlink(other)
        self.prepare("--input", good, "--overwrite", "--validation", "0.5")
        self.assertEqual(len(self.read("train.bin")[0]), 150)

    def test_wrong_use(self):
        good = self.write("good", b"abc" * 100)
        for arguments in (("--vocabulary", "300"), ("--tokenizer", "bpe", "--vocabulary", "255"), ("--validation", "0"),
                          ("--validation", "1"), ("--tokenizer", "x.json", "--vocabulary", "300"), ("--validation", "x"), ("--tokenizer", "words"), ("--shard-tokens", str(prepare_text.LEAST_SHARD_TOKENS - 1))):
            self.prepare("--input", good, *arguments, code=2)

    def test_a_folder_that_cannot_be_written(self):
        self.folder = "/proc/strata"
        self.assertIn("/proc/strata", self.prepare("--input", self.write("good", b"abc" * 100), code=4))


if __name__ == "__main__":
    unittest.main()
