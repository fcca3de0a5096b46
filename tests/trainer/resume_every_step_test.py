# SPDX-License-Identifier: MIT
"""A run that is stopped and resumed after every single step has the losses of an unbroken run bit for bit. If each part runs
on another number of ranks, its losses agree within rounding. Both read the same samples in each step, and each sample exactly
once per epoch: strace sees which images and which windows of tokens the ranks read, and ledgers have hashes of the samples of all
families. On GPUs batches are read ahead and machines may have no strace, so there only the ledgers tell."""

import collections
import glob
import os
import re
import shutil
import struct
import unittest

from training_runs import DEVICE, FAMILIES, MOST_RANKS, TrainingRuns, write_tokens

ALL = bool(os.environ.get("STRATA_TEST_ALL"))
EPOCH, BATCH = 2, 12  # steps of an epoch, samples of a step
STEPS = 20 if ALL else 4
SEQUENCE, HEADER = 12, 1024  # tokens of a window, bytes before the first one
RANKS = min(2, MOST_RANKS)
OTHER_RANKS = [ranks for ranks in (1, 4, 3, 2) if ranks <= MOST_RANKS]
TRACED = 'exec strace -f --seccomp-bpf %s -o "$TRACE.$OMPI_COMM_WORLD_RANK.$$" "$0" "$@"'
RECORD = struct.Struct("<IHHqQ4f")  # of the ledger: checksum, kind, bytes that are used, step, hash of the data, four numbers
KINDS_OF_STEPS = (3, 5)


class ResumeEveryStepTest(TrainingRuns):
    @classmethod
    def setUpClass(cls):
        if DEVICE == "cpu" and shutil.which("strace") is None:
            raise RuntimeError("this test needs strace: apt-get install strace")

    def part(self, run, last, overrides, ranks=RANKS, traced=None):
        """Trains up to this step. Returns what the ranks have read for it, each as often as it was read. `traced` has the words
        for strace and a pattern of what is read for a sample."""
        trace = os.path.join(self.folder, "trace-%s-%d" % (run, last))
        more = {"under": ["sh", "-c", TRACED % traced[0]], "environment": {"TRACE": trace}} if traced else {}
        self.train(run, "steps=%d" % STEPS, "micro_batch=1", "schedule.warmup=1", "evaluation={every: 0, tokens: 0}", "run.threads=2", *overrides,
                   "run.stop_after=%d" % last, batch=BATCH, ranks=ranks, **more)
        read = collections.Counter()
        for path in glob.glob(trace + ".*"):
            with open(path, encoding="utf-8") as file:
                read.update(re.findall(traced[1], file.read()))
        return read

    def parts(self, run, overrides, ranks, traced):
        """Trains in single steps, each on the next of these numbers of ranks. Returns what each step has read."""
        read = []
        for step in range(1, STEPS + 1):
            read.append(self.part(run, step, overrides, ranks[step % len(ranks)], traced))
            if step > 1:
                self.assertIn("resumed from step %d" % (step - 1), self.output)
        return read

    def data_hashes(self, run):
        """Returns the sum over ranks of the hashes of the samples, by step."""
        sums = collections.Counter()
        for path in glob.glob(self.path(run, "ledger/rank-*")):
            with open(path, "rb") as file:
                for _, kind, _, step, data, *_ in RECORD.iter_unpack(file.read()):
                    sums.update({step: data} if kind in KINDS_OF_STEPS else {})
        return {step: data % 2**64 for step, data in sums.items()}

    def expect_the_whole_run(self, name, overrides, same_ranks, other_ranks, traced=None, sample=None):
        """`sample` makes the number of a sample of what strace has seen."""
        whole = self.part(name, STEPS, overrides, traced=traced)
        hashes = self.data_hashes(name)
        self.assertEqual(sorted(hashes), list(range(1, STEPS + 1)))
        others = other_ranks and OTHER_RANKS != [RANKS]
        for run, ranks in [("same", [RANKS])] * (same_ranks or not others) + [("other", OTHER_RANKS)] * others:
            run = "%s-%s" % (name, run)
            read = self.parts(run, overrides, ranks, traced)
            if ranks == [RANKS]:
                self.assertEqual(self.losses(run), self.losses(name))
                self.assertEqual(self.hashes(run)[STEPS], self.hashes(name)[STEPS])
            self.expect_same_losses(run, name)
            self.assertEqual(self.data_hashes(run), hashes)
            self.assertEqual(sum(read, collections.Counter()), whole)
            for first in range(0, STEPS, EPOCH) if traced else ():
                of_epoch = [sample(text) for text in sum(read[first:first + EPOCH], collections.Counter()).elements()]
                self.assertEqual(sorted(of_epoch), list(range(EPOCH * BATCH)), "an epoch from step %d" % (first + 1))

    def test_text(self):
        # Enough tokens for windows of an epoch that do not overlap, wherever the first one begins.
        path = os.path.realpath(self.data) + "/train.bin"
        os.remove(path + ".documents")
        write_tokens(path, [(i * i + 7 * (i // 5)) % 37 for i in range((1 + EPOCH * BATCH) * SEQUENCE)])
        traced = ("-e trace=pread64 -P " + path, r"pread64.*, %d, (\d+)\) += " % (2 * SEQUENCE + 2)) if DEVICE == "cpu" else None
        self.expect_the_whole_run("text", [], ALL, True, traced, lambda place: (int(place) - HEADER) // 2 // SEQUENCE)

    def test_graphs(self):
        for family in ("many_graphs", "sampled_graph") if ALL else ("many_graphs",):
            self.expect_the_whole_run(family, [text.format(data=self.data) for text in FAMILIES[family]], ALL, True)

    @unittest.skipIf(DEVICE == "cuda", "the readers of images are the same on each device")
    def test_images(self):
        from image_files_training_test import write_images  # which needs Pillow

        write_images(self.data + "/train", EPOCH * BATCH)
        write_images(self.data + "/validation", 9, first=1000)
        overrides = [
            "model={type: vision_transformer, layers: 1, width: 24, heads: 3, image_size: 16, patch: 8, classes: 3, pooling: mean}",
            "data={type: image_folder, train: %s/train, validation: %s/validation, flip: true, threads: 1}" % (self.data, self.data)]
        traced = ("-e trace=openat", r'openat\(.*"%s/train/\w+/(\d+)\.\w+"' % re.escape(self.data))
        self.expect_the_whole_run("images", overrides, True, ALL, traced, int)


if __name__ == "__main__":
    unittest.main()
