# SPDX-License-Identifier: MIT
"""Checks runs on folders and archives of images: equal on any number of ranks, resumed bit for bit, and unreadable
images are reported."""

import functools
import io
import os
import shutil
import tarfile
import unittest

import numpy
from PIL import Image
from training_runs import TrainingRuns

IMAGES, CLASSES = 50, ("blue", "green", "red")


def write_images(root, count, first=0):
    """Writes images whose class is the strongest color, which is somewhere in the image."""
    for i in range(first, first + count):
        label = (i * i + i // 4) % 3
        pixels = numpy.random.default_rng(i).integers(0, 90, (20 + i % 7, 24 - i % 5, 3)).astype(numpy.uint8)
        pixels[4:16, 4:16, 2 - label] += 150
        folder = os.path.join(root, CLASSES[label])
        os.makedirs(folder, exist_ok=True)
        Image.fromarray(pixels).save("%s/%03d.%s" % (folder, i, "png" if i % 2 else "jpg"))


def pack_images(root, archives):
    """Writes the same images as WebDataset archives, in the order of their numbers."""
    files = sorted((name, label, path) for label, path in enumerate(CLASSES) for name in os.listdir(os.path.join(root, path)))
    for part in range(archives):
        with tarfile.open("%s-%d.tar" % (root, part), "w") as archive:
            for name, label, folder in files[part::archives]:
                archive.add(os.path.join(root, folder, name), name)
                info = tarfile.TarInfo(name.split(".")[0] + ".cls")
                info.size = 1
                archive.addfile(info, io.BytesIO(b"%d" % label))


def for_each_kind(test):
    """Runs the test with overrides for folders, then for archives."""
    @functools.wraps(test)
    def run(self):
        rest = "flip: true, mixup: 0.2, threads: 2, area: [0.5, 1]}"
        for kind, data in (("image_folder", "train: {0}/train, validation: {0}/validation, "),
                           ("webdataset", "train: '{0}/train-*.tar', validation: '{0}/validation-*.tar', shuffle: 7, ")):
            with self.subTest(kind):
                test(self, kind, *self.overrides, "data={type: " + kind + ", " + data.format(self.data) + rest)
    return run


class ImageFilesTrainingTest(TrainingRuns):
    def setUp(self):
        super().setUp()
        write_images(self.data + "/train", IMAGES)
        write_images(self.data + "/validation", 21, first=1000)
        self.pack()
        self.overrides = [
            "model={type: vision_transformer, layers: 2, width: 24, heads: 3, image_size: 16, patch: 4, classes: 3, pooling: mean}",
            "evaluation={every: 10}"]

    def pack(self):
        pack_images(self.data + "/train", 3)
        pack_images(self.data + "/validation", 2)

    def evaluations(self, run):
        return [line for line in self.lines(run) if "validation_loss" in line]

    def bad(self, run):
        return sorted(line["bad_sample"] for line in self.lines(run) if "bad_sample" in line)

    @for_each_kind
    def test_any_number_of_ranks_learns_the_same(self, kind, *overrides):
        for ranks in self.some_ranks(1, 2, 3):
            run = "%s-on-%d" % (kind, ranks)
            self.train(run, *overrides, ranks=ranks, batch=48)
            self.expect_same_losses(run, kind + "-on-1")
            self.assertEqual(self.evaluations(run)[-1]["validation_images"], 21)
        self.assertLess(self.losses(run)[-1], 0.8 * self.losses(run)[0])
        self.assertGreater(self.evaluations(run)[-1]["validation_accuracy"], 0.6)

    @for_each_kind
    def test_resuming_gives_the_same_bits(self, kind, *overrides):
        whole, parts = kind + "-whole", kind + "-parts"
        self.train(whole, *overrides)
        self.train(parts, *overrides, "run.stop_after=10")
        self.train(parts, *overrides)
        self.assertIn("resumed from step 10", self.output)
        self.assertEqual(self.losses(parts), self.losses(whole))
        self.assertEqual(self.hashes(parts)[20], self.hashes(whole)[20])
        os.remove(os.path.join(self.data, "train", "red", sorted(os.listdir(self.data + "/train/red"))[0]))
        self.pack()
        self.train(parts, *overrides, expect=2)
        self.assertIn("the data: was", self.errors)

    @for_each_kind
    def test_bad_images_are_named_and_too_many_stop_the_run(self, kind, *overrides):
        shutil.rmtree(self.data + "/train")
        shutil.rmtree(self.data + "/validation")
        write_images(self.data + "/train", IMAGES)
        write_images(self.data + "/validation", 21, first=1000)
        broken = []
        for part in ("train", "validation"):
            name = sorted(name for name in os.listdir(self.data + "/%s/green" % part) if name.endswith(".jpg"))[0]
            path = "%s/%s/green/%s" % (self.data, part, name)
            os.truncate(path, os.path.getsize(path) // 2)
            broken.append(name)
        self.pack()
        runs = ["%s-named-on-%d" % (kind, ranks) for ranks in self.some_ranks(1, 2)]
        for ranks, run in enumerate(runs, 1):
            self.train(run, *overrides, "data.bad_share=0.1", ranks=ranks)
            found = self.bad(run)
            self.assertEqual(len(found), 2, found)
            for name, line in zip(broken, found, strict=True):
                self.assertIn(name + ": damaged JPEG: ", line)
                self.assertIn(line, self.output + self.errors)
        self.expect_same_losses(runs[-1], runs[0])
        run = kind + "-stopped"
        self.train(run, *overrides, "data.bad_share=0.01", "log.every=1000", ranks=runs.index(runs[-1]) + 1, expect=3)
        self.assertIn("1 sample cannot be used, more than data.bad_share 0.01 of 71 images; each is named in metrics.jsonl", self.errors)
        self.assertEqual(len(self.bad(run)), 1)
        self.assertIn(broken[0], self.bad(run)[0])
        self.assertLessEqual(len(self.losses(run)), 4)  # steps of 16 images, of which there are 50

    def test_losses_and_gradients_are_means_over_the_images_that_can_be_used(self):
        # Each step takes all images, and each of them has one color, so that crops do not change them.
        model = self.overrides[:1] + ["micro_batch=2", "steps=3", "evaluation.tokens=0", "schedule={type: constant}", "optimizer.gradient_clip=0.01"]
        for root, broken in ("some", 2), ("all", 0):
            for part, images in ("train", 20), ("validation", 10):
                for i in range(images):
                    folder = os.path.join(self.data, root, part, CLASSES[i % 3])
                    os.makedirs(folder, exist_ok=True)
                    Image.new("RGB", (16, 16), (7 * i, 90 + 100 * (i % 3), 200 - 5 * i)).save("%s/%03d.png" % (folder, i))
                for i in range(broken * images // 10):  # a sixth of the images
                    with open(os.path.join(self.data, root, part, CLASSES[i % 3], "broken%d.png" % i), "wb") as file:
                        file.write(b"no image")
            data = "data={type: image_folder, train: %s/%s/train, validation: %s/%s/validation, bad_share: 0.5}" % (self.data, root, self.data, root)
            self.train(root, *model, data, batch=24 if broken else 20)
            self.assertEqual(len(self.bad(root)), 3 * broken)
        for some, each in zip(*([line for line in self.lines(run) if "loss" in line or "validation_loss" in line] for run in ("some", "all")), strict=True):
            for name in ("loss", "gradient_norm", "validation_loss", "validation_accuracy", "validation_images"):
                self.assertAlmostEqual(some.get(name, 0), each.get(name, 0), delta=1e-3 * abs(each.get(name, 0)), msg=name)
        self.assertEqual(self.evaluations("some")[-1]["validation_images"], 10)

    def test_folders_that_do_not_fit(self):
        self.overrides.append("data={type: image_folder, train: %s/train, validation: %s/validation}" % (self.data, self.data))
        os.rename(self.data + "/validation/red", self.data + "/validation/yellow")
        self.train("differ", *self.overrides, expect=3)
        self.assertIn("validation: has no folder of the class 'red', which is in %s/train; expected the same classes in both" % self.data, self.errors)
        shutil.rmtree(self.data + "/validation/yellow")
        self.train("fewer", *self.overrides, ranks=1, expect=3)
        self.assertIn("validation: has no folder of the class 'red', which is in %s/train" % self.data, self.errors)
        os.mkdir(self.data + "/validation/red")
        self.train("empty", *self.overrides, ranks=1, expect=3)
        self.assertIn("red: has no images; each class needs some", self.errors)
        os.mkdir(self.data + "/validation/yellow")
        self.train("more", *self.overrides, ranks=1, expect=3)
        self.assertIn("train: has no folder of the class 'yellow', which is in %s/validation" % self.data, self.errors)
        os.mkdir(self.data + "/train/yellow")
        self.train("too-many", *self.overrides, ranks=1, expect=3)
        self.assertIn("train: has 4 folders of classes; model.classes is 3", self.errors)
        self.train("absent", *self.overrides, "data.train=" + self.data + "/nothing", ranks=1, expect=3)
        self.assertIn("nothing: is no folder", self.errors)


if __name__ == "__main__":
    unittest.main()
