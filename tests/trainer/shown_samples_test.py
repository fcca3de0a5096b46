# SPDX-License-Identifier: MIT
"""What evaluations show of their first samples has the mean and the predictions of the evaluation itself, for any ranks, and changes nothing."""
import json
import math
import os
import struct
import unittest

from training_runs import FAMILIES, TrainingRuns, write_images

SAMPLES, SEQUENCE = 20, 12


class ShownSamplesTest(TrainingRuns):
    def samples(self, run):
        with open(self.path(run, "samples.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def validation_tokens(self):
        with open(self.data + "/validation.bin", "rb") as file:
            content = file.read()[1024:]
        return struct.unpack("<%dH" % (len(content) // 2), content)

    def check_texts(self, run, *overrides, some_ignored=False, **options):
        """Trains, and returns the losses of the last evaluation by sample."""
        tokens = SAMPLES * SEQUENCE
        self.train(run, "steps=4", "evaluation={every: 2, tokens: %d, final_tokens: %d, samples: %d}" % (tokens, tokens, SAMPLES), *overrides, **options)
        records = self.samples(run)
        self.assertEqual([(record["step"], record["sample"]) for record in records], [(step, i) for step in (2, 4) for i in range(SAMPLES)])
        data = self.validation_tokens()
        for record in records:
            first = record["sample"] * SEQUENCE
            self.assertEqual(record["tokens"], [*data[first:first + SEQUENCE]])
            self.assertTrue(all(0 <= token < 37 for token in record["predictions"]))
        for line in self.lines(run):
            if "validation_loss" in line:
                losses = [loss for record in records if record["step"] == line["step"] for loss in record["losses"]]
                known = [loss for loss in losses if loss is not None]
                self.assertEqual(len(known) < len(losses), some_ignored)
                self.assertEqual(len(known), line["validation_tokens"])
                self.assertAlmostEqual(math.fsum(known) / len(known), line["validation_loss"], delta=1e-5 * line["validation_loss"])
        return [record["losses"] for record in records[SAMPLES:]]

    def test_texts_have_the_loss_of_the_evaluation(self):
        alone = self.check_texts("alone", ranks=1)
        for name, ranks, overrides in (("two", 2, []), ("three", 3, ["batch=48"]), ("split", 2, ["sharding.sequence=2", "model.dropout=0"]),
                                       ("fused", 2, ["kernels.linear_cross_entropy=aten"]), ("capped", 1, ["model.logit_softcap=3"])):
            if ranks not in self.some_ranks(ranks):
                continue
            losses = self.check_texts(name, *overrides, ranks=ranks)
            if name in ("two", "fused"):
                for one, other in zip(sum(alone, []), sum(losses, []), strict=True):
                    self.assertAlmostEqual(one, other, delta=1e-3)
        self.check_texts("documents", "data.documents=separate", some_ignored=True)

    def test_a_prediction_is_the_most_probable_token(self):
        self.train("run", "steps=300", "evaluation.samples=4", "batch=32", "schedule={type: constant}", ranks=1, batch=32)
        pairs = [(loss, token == prediction) for record in self.samples("run") if record["step"] == 300
                 for loss, token, prediction in zip(record["losses"], record["tokens"][1:], record["predictions"])]  # fmt: skip
        self.assertTrue(any(loss < math.log(2) for loss, _ in pairs), pairs)
        for loss, is_right in pairs:
            if loss < math.log(2):  # nothing else is more probable
                self.assertTrue(is_right, pairs)
            self.assertFalse(is_right and loss > math.log(37), pairs)  # the most probable of 37 has more than a 37th

    def test_images_have_the_accuracy_of_the_evaluation(self):
        count = 61
        write_images(self.data + "/validation", 500, count)
        for ranks in self.some_ranks(1, 2):
            run = "images%d" % ranks
            self.train(run, *[text.format(data=self.data) for text in FAMILIES["vision"]], "evaluation={every: 0, samples: 64}", ranks=ranks)
            records = self.samples(run)
            with open(self.data + "/validation.labels", "rb") as file:
                self.assertEqual([record["label"] for record in records], [[label] for label in file.read()[8:]])
            [line] = [line for line in self.lines(run) if "validation_loss" in line]
            self.assertEqual(sum(record["label"] == record["prediction"] for record in records) / count, line["validation_accuracy"])
            self.assertAlmostEqual(-math.fsum(math.log(record["probability"][0]) for record in records) / count, line["validation_loss"], delta=1e-4)

    def test_a_run_is_the_same_with_and_without_and_resumes(self):
        self.train("without")
        self.assertFalse(os.path.exists(self.path("without", "samples.jsonl")))
        self.train("with", "evaluation.samples=2", "run.stop_after=15")
        self.assertEqual([(record["step"], record["sample"]) for record in self.samples("with")], [(10, 0), (10, 1), (15, 0), (15, 1)])
        with open(self.path("with", "samples.jsonl"), "a", encoding="utf-8") as file:
            file.write('{"step":16,"sample":0,"tokens":[1]}\n')  # of a step after the checkpoint
        self.train("with", "evaluation.samples=2")
        self.assertEqual([(record["step"], record["sample"]) for record in self.samples("with")], [(step, i) for step in (10, 15, 20) for i in (0, 1)])
        self.assertEqual(self.hashes("with")[20], self.hashes("without")[20])


if __name__ == "__main__":
    unittest.main()
