# SPDX-License-Identifier: MIT
"""A run that is stopped and resumed after every single step has the losses of an unbroken run, and reads each sample exactly
once per epoch: strace sees which files of images its ranks open. On GPUs a run on text has the losses of an unbroken one, and
what it reads is left out: batches are read ahead there, and machines may have no strace."""

import collections
import glob
import os
import re
import shutil
import unittest

from training_runs import DEVICE, TrainingRuns

EPOCHS = 7 if os.environ.get("STRATA_TEST_ALL") else 2
EPOCH, BATCH = 3, 4  # steps of an epoch, samples of a step
STEPS = EPOCHS * EPOCH
TRACED = 'exec strace -f --seccomp-bpf -e trace=openat -o "$TRACE.$OMPI_COMM_WORLD_RANK.$$" "$0" "$@"'


class ResumeEveryStepTest(TrainingRuns):
    def setUp(self):
        super().setUp()
        self.overrides = ["steps=%d" % STEPS, "micro_batch=2", "schedule.warmup=1", "evaluation={every: 0, tokens: 0}"]
        if DEVICE == "cpu":
            self.train_on_image_files()

    def train_on_image_files(self):
        from image_files_training_test import write_images  # which needs Pillow

        if shutil.which("strace") is None:
            raise RuntimeError("this test needs strace: apt-get install strace")
        write_images(self.data + "/train", EPOCH * BATCH)
        write_images(self.data + "/validation", 9, first=1000)
        self.overrides += [
            "model={type: vision_transformer, layers: 1, width: 24, heads: 3, image_size: 16, patch: 8, classes: 3, pooling: mean}",
            "data={type: image_folder, train: %s/train, validation: %s/validation, flip: true, threads: 1}" % (self.data, self.data)]

    def part(self, run, last):
        """Trains up to this step. On CPUs it returns the images that the ranks have read for it, each as often as it was
        read."""
        trace = os.path.join(self.folder, "trace-%s-%d" % (run, last))
        traced = {"under": ["sh", "-c", TRACED], "environment": {"TRACE": trace}} if DEVICE == "cpu" else {}
        self.train(run, *self.overrides, "run.stop_after=%d" % last, batch=BATCH, **traced)
        read = collections.Counter()
        for path in glob.glob(trace + ".*"):
            with open(path, encoding="utf-8") as file:
                read.update(re.findall(r'openat\(.*"%s/train/\w+/(\d+\.\w+)"' % re.escape(self.data), file.read()))
        return read

    def test_a_run_in_single_steps_is_the_whole_run(self):
        whole = self.part("whole", STEPS)
        parts = []
        for step in range(1, STEPS + 1):
            parts.append(self.part("parts", step))
            if step > 1:
                self.assertIn("resumed from step %d" % (step - 1), self.output)
        self.assertEqual(self.losses("parts"), self.losses("whole"))
        self.assertEqual(self.hashes("parts")[STEPS], self.hashes("whole")[STEPS])
        if DEVICE == "cpu":
            self.expect_each_sample_once(parts, whole)

    def expect_each_sample_once(self, parts, whole):
        samples = {name for folder in os.listdir(self.data + "/train") for name in os.listdir("%s/train/%s" % (self.data, folder))}
        for first in range(0, STEPS, EPOCH):
            self.assertEqual(sum(parts[first:first + EPOCH], collections.Counter()), collections.Counter(samples), "an epoch from step %d" % (first + 1))
        self.assertEqual(sum(parts, collections.Counter()), whole)


if __name__ == "__main__":
    unittest.main()
