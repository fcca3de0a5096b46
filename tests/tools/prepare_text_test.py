# SPDX-License-Identifier: MIT
"""Checks prepare text: token files give the text back, and bad text is refused."""
import bz2
import gzip
import lzma
import os
import shutil
import signal
import subprocess
import sys
import unittest
import unittest.mock

import numpy
import tokenizers

from prepared_text import TMP, PreparedTextCase, contents

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
            chunks = [(tokens, numpy.zeros(tokens, dtype=numpy.uint8), True)]
            if fits:
                self.assertEqual(prepare_text.write_split(TMP, "most", chunks, tokenizer, 5, []), (1, 5, 1))
            else:
                with self.assertRaisesRegex(prepare_text.BadInput, "are 6 tokens, and a file has at most 5; give larger --shard-tokens"):
                    prepare_text.write_split(TMP, "most", chunks, tokenizer, 5, [])

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

    def test_a_compressed_file_is_no_text(self):
        """Its bytes would be tokens, and the run would learn nothing."""
        text = WORDS.encode() * 9
        packed = {"gzip": gzip.compress(text), "bzip2": bz2.compress(text, 3), "7z": b"7z\xbc\xaf\x27\x1c" + text, "xz": lzma.compress(text), "zip": b"PK\x03\x04" + text, "zstd": b"\x28\xb5\x2f\xfd" + text}
        for kind, content in packed.items():
            path = self.write("text.gz" if kind == "gzip" else "text", content)
            for more in ((), ("--tokenizer", "bpe"), *([("--documents", "lines")] if kind != "gzip" else [])):
                self.assertIn(f"{path}: is compressed ({kind}), expected text", self.prepare("--input", path, *more, code=3))
        self.prepare("--input", self.write("text.gz", packed["gzip"]), "--documents", "lines")
        self.assertEqual(self.read("train.bin")[0][:20].astype(numpy.uint8).tobytes(), text[:20])
        unnamed = self.write("text", packed["gzip"])
        self.assertIn("is compressed (gzip)", self.prepare("--input", unnamed, "--documents", "lines", "--overwrite", code=3))

    def test_the_tokenizer_of_old_token_files_does_not_stay(self):
        text = self.write("text", WORDS.encode() * 20)
        tokenizer = os.path.join(self.folder, "tokenizer.json")
        self.prepare("--input", text, "--tokenizer", "bpe", "--vocabulary", "300")
        pairs = contents(tokenizer)
        self.assertIn("tokenizer.json is not of these data, and is now tokenizer.json.old", self.prepare("--input", text, "--overwrite"))
        self.assertFalse(os.path.exists(tokenizer))
        self.assertEqual(contents(tokenizer + ".old"), pairs)
        self.prepare("--input", text, "--tokenizer", "bpe", "--vocabulary", "280", "--overwrite")
        self.assertNotEqual(contents(tokenizer), pairs)

    def test_the_tokenizer_of_a_model_is_not_replaced(self):
        """Neither by another one, nor by itself in other words and without its truncation."""
        text, path = self.write("text", WORDS.encode() * 20), os.path.join(self.folder, "tokenizer.json")
        os.makedirs(self.folder)
        model = tokenizers.Tokenizer(tokenizers.models.BPE())
        model.add_tokens(sorted(set(WORDS)))
        model.enable_truncation(5)
        model.save(path)
        content = contents(path)
        self.assertIn(f"{path}: is there already", self.prepare("--input", text, "--tokenizer", "bpe", code=3))
        self.prepare("--input", text)
        self.prepare("--input", text, "--tokenizer", path, "--overwrite")
        self.assertEqual(contents(path), content)

    def test_old_token_files_stay_until_the_new_ones_are_complete(self):
        text = self.write("text", WORDS.encode() * 20)
        self.prepare("--input", text, "--tokenizer", "bpe", "--vocabulary", "300")
        before = self.prepared()
        given = os.path.join(TMP, "given.json")
        shutil.copy(os.path.join(self.folder, "tokenizer.json"), given)
        for content, tokenizer in ((b"caf\xe9 \n" * 9, "bpe"), (b"cafe \n" * 9 + b"caf\xe9", "bpe"), (b"cafe \n" * 9 + b"caf\xe9", given)):
            with self.subTest(content=content, tokenizer=tokenizer):
                self.prepare("--input", self.write("latin", content), "--tokenizer", tokenizer, "--overwrite", code=3)
                self.assertEqual(self.prepared(), before)
        with unittest.mock.patch.object(prepare_text, "write_split", side_effect=KeyboardInterrupt), \
                unittest.mock.patch.object(sys, "argv", ["prepare", "--input", text, "--output", self.folder, "--overwrite"]), \
                self.assertRaises(KeyboardInterrupt):
            prepare_text.main()
        self.assertEqual(self.prepared(), before)

    def test_an_interrupt_is_no_fault_of_the_program(self):
        os.mkfifo(fifo := os.path.join(TMP, "fifo"))
        program = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); sys.path[:0] = ['tools']; import bad_input; bad_input.run(lambda: (print('begun', flush=True), open(sys.argv[1])))"
        with subprocess.Popen([sys.executable, "-c", program, fifo], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            self.assertEqual(process.stdout.readline(), "begun\n")
            process.send_signal(signal.SIGINT)
            self.assertEqual((process.wait(), process.stderr.read()), (130, "strata: interrupted\n"))

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
