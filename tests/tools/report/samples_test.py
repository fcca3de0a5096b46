# SPDX-License-Identifier: MIT
"""What evaluations show of single samples: tokens with the colors of their losses, classes of images, and damaged files."""
import json
import math
import os
import sys
import unittest

sys.path[:0] = ["tools", "tools/report"]
from report_runs import ReportRuns, step_record  # noqa: E402
from run_folder import Run  # noqa: E402
from samples import sample_section, spread  # noqa: E402

BYTES = "steps: 9  # default\nmodel:\n  vocabulary: 256  # default\n"
COLORS = 8
# A tokenizer whose pieces stand for bytes, and one whose pieces are text. Both are as Hugging Face writes them.
BYTE_LEVEL = {"model": {"type": "BPE", "vocab": {"the": 0, "Ġcat": 1, "Ċ": 2, "Ã©": 3, "Ã": 4}}, "decoder": {"type": "ByteLevel"},
              "added_tokens": [{"id": 5, "content": "<|endoftext|>"}, {"id": "6", "content": "no"}, 7]}  # fmt: skip
UNIGRAM = {"model": {"type": "Unigram", "vocab": [["<unk>", 0], ["\u2581the", -1.5], ["<0x41>", -2], ["<0xE2>", -2], 4]},
           "decoder": {"type": "Sequence", "decoders": [{"type": "Replace"}, {"type": "ByteFallback"}, 3]}}  # fmt: skip


def text_record(step, sample, tokens, losses=None, predictions=None):
    """Returns a record as trainer/report/metrics.cc writes it: the loss and the prediction are of the token after each."""
    tokens = list(tokens)
    return {"step": step, "sample": sample, "tokens": tokens, "losses": losses or [1.0] * len(tokens), "predictions": predictions or [0] * len(tokens)}


def lines(*records):
    return "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)


class SamplesTest(ReportRuns):
    def samples(self, samples, name="a", **files):
        return self.report(self.run_folder(name, [step_record(1), {"step": 1, "validation_loss": 2.0}], samples_jsonl=samples, **files))

    def shown(self, page):
        """Returns (text, class, title) of the tokens, without the scale of colors."""
        texts = [part for part in page.parts["span"]]
        return [(text, span.get("class"), span.get("title")) for text, span in zip(texts, page.spans, strict=True)][COLORS:]

    def test_tokens_have_the_losses_of_their_prediction(self):
        losses = [0.25, 1.5, 100, None, 7]
        page = self.samples(lines(text_record(1, 0, b"a<\n b", losses, [*b"<xb ?"])), resolved_yaml=BYTES)
        self.assertEqual(self.shown(page), [("a", None, None), ("<", "loss-0 right", "0.25"), ("↵\n", "loss-2", "1.50, expected: x"),
                                            (" ", "loss-7", "100.00, expected: b"), ("b", None, None)])  # fmt: skip
        self.assertIn("These are the first samples of the validation data", page.text())
        self.assertIn(f"Sample 0 after step 1: mean loss {(0.25 + 1.5 + 100 + 7) / 4:.4f} of 4 tokens.", page.text())
        self.assertEqual([span["class"] for span in page.spans[:COLORS]], [f"loss-{i}" for i in range(COLORS)])
        for i in range(1, COLORS):
            self.assertIn(f".loss-{i} {{", page.parts["style"][0])

    def texts(self, tokenizer, tokens, name):
        text = tokenizer if isinstance(tokenizer, str) else json.dumps(tokenizer)
        page = self.samples(lines(text_record(1, 0, tokens)), name=name, resolved_yaml=BYTES, tokenizer_json=text)
        return [text for text, _, _ in self.shown(page)], page.text()

    def test_tokenizers(self):
        texts, said = self.texts(BYTE_LEVEL, range(8), "bytes")
        self.assertEqual(texts, ["the", " cat", "↵\n", "é", "\\xc3", "<|endoftext|>", "[6]", "[7]"])
        self.assertNotIn("Tokens are shown as numbers", said)
        self.assertEqual(self.texts(UNIGRAM, range(5), "unigram")[0], ["<unk>", " the", "A", "\\xe2", "[4]"])
        for i, damaged in enumerate(("{", "[]", "[" * 100_000)):
            texts, said = self.texts(damaged, [65], f"damaged{i}")
            self.assertEqual(texts, ["[65]"])
            self.assertIn("Tokens are shown as numbers", said)
        for i, empty in enumerate(({}, {"model": 1, "added_tokens": 2, "decoder": 3}, {"model": {"vocab": 4}, "decoder": {"decoders": 5}})):
            self.assertEqual(self.texts(empty, [65], f"empty{i}")[0], ["[65]"])
        page = self.samples(lines(text_record(1, 0, [65])), name="none", resolved_yaml=BYTES.replace("256", "37"))
        self.assertEqual(self.shown(page), [("[65]", None, None)])
        self.assertIn("Tokens are shown as numbers", page.text())

    def test_texts_of_tokens_are_only_text(self):
        hostile = ["</p></section><script>alert(1)</script>", '"><b>', "\u202e", "a\0b", "x" * 5000]
        texts, _ = self.texts({"model": {"vocab": {text: i for i, text in enumerate(hostile)}}}, range(5), "hostile")
        self.assertEqual(texts, [*hostile[:3], "a\N{REPLACEMENT CHARACTER}b", "x" * 64 + "..."])

    def test_damaged_lines(self):
        good = text_record(1, 0, b"good")
        bad = [{**good, "tokens": "good"}, {**good, "losses": [1.0]}, {**good, "tokens": [1, 2, 3, "4"]}, {**good, "predictions": None},
               {"step": 1, "sample": 0, "nothing": 1}, {**good, "tokens": []}, {**good, "predictions": [1, 2, True, 4]}]  # fmt: skip
        for i, record in enumerate(bad):
            page = self.samples(lines(text_record(1, 1, b"ok"), record), name=f"bad{i}", resolved_yaml=BYTES)
            self.assertIn("Lines of samples.jsonl that are damaged and left out: 1.", page.text(), record)
            self.assertEqual([text for text, _, _ in self.shown(page)], ["o", "k"])
        long = text_record(1, 2, [65] * 600_000)  # more than a line may have
        page = self.samples(lines(good, long) + "no record\n\0\n" + lines(good)[:40], name="cut", resolved_yaml=BYTES)
        self.assertIn("Lines of samples.jsonl that are damaged and left out: 2.", page.text())  # the long one, and the one that is cut off
        page = self.samples(lines(text_record(1, 0, b"old"), text_record(1, 0, b"new")), name="twice", resolved_yaml=BYTES)
        self.assertEqual([text for text, _, _ in self.shown(page)], ["n", "e", "w"])
        huge = text_record(1, 0, b"big", [sys.float_info.max] * 3)
        self.assertIn("mean loss inf of 3 tokens.", self.samples(lines(huge), name="huge", resolved_yaml=BYTES).text())
        folder = self.run_folder("pipe", [step_record(1), {"step": 1, "validation_loss": 2.0}])
        os.mkfifo(folder + "/samples.jsonl")  # a read would wait for ever
        self.assertIn("No samples: evaluation.samples=4", self.report(folder).text())

    def test_files_that_are_cut_back_after_they_were_read(self):
        run = Run(self.run_folder("cut", [step_record(1)], samples_jsonl=lines(text_record(1, 0, b"old"), text_record(2, 0, b"gone"))))
        path = run.path("samples.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.write(lines(text_record(1, 3, b"new")))
        self.assertIn("Lines of samples.jsonl that are damaged and left out: 2.", sample_section(run, 1))
        os.remove(path)
        self.assertIn("Lines of samples.jsonl that are damaged and left out: 2.", sample_section(run, 1))

    def test_many_samples_make_a_small_page(self):
        records = [text_record(step, sample, [34] * 2048, [9.99] * 2048, [38] * 2048) for step in range(10, 130, 10) for sample in range(12)]
        page = self.samples(lines(*records), resolved_yaml=BYTES)
        self.assertLess(len(page.source.encode()), 1_200_000)
        text = page.text()
        for step in (10, 50, 90, 120):  # of twelve
            self.assertIn(f"Sample 7 after step {step}: mean loss 9.9900 of 2048 tokens.", text)
        self.assertNotIn("Sample 8 after", text)
        self.assertNotIn("after step 20:", text)
        self.assertIn("of these 2048 tokens.", text)
        runs = [self.run_folder(f"run{i}", [step_record(1), {"step": 1, "validation_loss": 2.0}], samples_jsonl=lines(*records)) for i in range(6)]
        page = self.report(*runs)
        self.assertLess(len(page.source.encode()), 1_200_000)
        self.assertEqual([page.text().count(f"Sample 0 after step {step}:") for step in (10, 120)], [0, 6])

    def test_images(self):
        records = [{"step": step, "sample": i, "label": [label], "prediction": [label if step > 1 else 7], "probability": [step * 0.25]}
                   for step in (1, 2) for i, label in enumerate((3, 9))]  # fmt: skip
        records += [{"step": 2, "sample": 2, "label": [None], "prediction": [4], "probability": [None]}]
        page = self.samples(lines(*records))
        self.assertEqual(page.table("image", "label", "after step 1", "after step 2"),
                         [["0", "3", "7, 0.2500", "3, 0.5000"], ["1", "9", "7, 0.2500", "9, 0.5000"], ["2", "not usable", "", "4"]])
        self.assertNotIn("span", page.parts)

    def test_steps_are_spread(self):
        for count in range(1, 30):
            for most in range(1, 6):
                found = spread(list(range(count)), most)
                self.assertEqual(found, sorted(set(found)))
                self.assertEqual(len(found), min(count, most))
                self.assertEqual(found[-1], count - 1)
                self.assertTrue(most == 1 or found[0] == 0)
        self.assertTrue(math.isclose(spread(list(range(101)), 3)[1], 50))


if __name__ == "__main__":
    unittest.main()
