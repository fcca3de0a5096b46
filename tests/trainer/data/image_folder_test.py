# SPDX-License-Identifier: MIT
"""Checks that folders of images are read as PIL and torchvision read them, and that unreadable images are reported."""

import io
import math
import os
import shutil
import sys
import unittest
import zlib

import numpy
import torch
from encoded_pictures import SIZE, ImageBatches, encoded, picture, png
from PIL import Image


# Runs a command and writes the largest memory that it had, in kB, to the file that comes before it.
MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[2:]).returncode
with open(sys.argv[1], "w") as file:
    file.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(code)
"""


def with_noise(jpeg):
    """Damages a JPEG where the pixels begin. The end of the file stays good."""
    early = jpeg.index(b"\xff\xda") + 40
    return jpeg[:early] + b"\xff\xc4\x00\x01" * 30 + jpeg[early:]


class ImageFolderTest(ImageBatches):
    def test_classes_and_files_are_sorted_as_in_torchvision(self):
        names = ["b/2.png", "b/10.png", "a/z.PNG", "a/deep/x.png", "c/y.png", "a/B.png"]
        for i, name in enumerate(names):
            self.write(name, encoded(Image.new("RGB", (SIZE, SIZE), (10 * i, 0, 0)), "png"))
        self.write("a/notes.txt", b"no image")
        images, labels = self.batch(3)
        self.assertEqual(labels, [0, 0, 0, 1, 1, 2])
        # torchvision walks the folders in sorted order and sorts the names in each.
        order = [round(value) // 10 for value in images[:, 0, 0, 0].tolist()]
        self.assertEqual(order, [names.index(name) for name in ("a/B.png", "a/z.PNG", "a/deep/x.png", "b/10.png", "b/2.png", "c/y.png")])

    def test_evaluation_sees_what_pil_sees(self):
        cases = {}
        for i, (width, height) in enumerate([(500, 375), (375, 500), (64, 48), (33, 97), (40, 36), (20, 31), (1000, 40)]):
            image = picture(width, height, i)
            cases["%02d.jpg" % i] = encoded(image, "jpeg", quality=90)
            cases["%02d-gray.jpeg" % i] = encoded(image.convert("L"), "jpeg")
            cases["%02d-progressive.jpg" % i] = encoded(image, "jpeg", progressive=True, subsampling=0)
            cases["%02d.png" % i] = encoded(image, "png")
            cases["%02d-alpha.png" % i] = encoded(image.convert("RGBA").rotate(30), "png")
            cases["%02d-palette.png" % i] = encoded(image.quantize(50), "png")
            cases["%02d-gray.png" % i] = encoded(image.convert("L"), "png")
            cases["%02d-bits.png" % i] = encoded(image.convert("1"), "png")
        for name, data in cases.items():
            self.write("only/" + name, data)
        images, _ = self.batch(1)
        self.assertEqual(self.bad, [])
        for name, seen in zip(sorted(cases), images, strict=True):
            image = Image.open(io.BytesIO(cases[name])).convert("RGB")
            shorter = math.floor(SIZE / 0.875)
            width, height = image.size
            size = (shorter, int(shorter * height / width)) if width <= height else (int(shorter * width / height), shorter)
            resized = image.resize(size, Image.BICUBIC)
            left, top = round((size[0] - SIZE) / 2), round((size[1] - SIZE) / 2)
            expected = torch.tensor(numpy.array(resized.crop((left, top, left + SIZE, top + SIZE)))).permute(2, 0, 1)
            difference = (seen - expected).abs()
            self.assertLess(difference.max().item(), 2.01, name)  # both round after each of two passes
            self.assertLess(difference.mean().item(), 0.1, name)

    def test_one_channel_is_pils_grey(self):
        image = picture(SIZE, SIZE)
        for name in ("a/0.png", "a/1.png"):
            self.write(name, encoded(image, "png"))
        images, _ = self.batch(1, channels=1)
        self.assertEqual(images.shape, (2, 1, SIZE, SIZE))
        gray = numpy.array(image.convert("L").resize((36, 36), Image.BICUBIC).crop((2, 2, 34, 34)))
        seen = images[0, 0]
        self.assertLess((seen - torch.tensor(gray)).abs().max().item(), 2.01)

    def test_training_views(self):
        """The colors of the picture are its coordinates, so they show which box was cropped."""
        width, height, count = 400, 300, 120
        y, x = numpy.mgrid[0:height, 0:width]
        image = Image.fromarray(numpy.stack([x * 255 / width, y * 255 / height, 0 * x], 2).round().astype(numpy.uint8))
        for i in range(count):
            self.write("%d/%03d.png" % (i % 2, i), encoded(image, "png"))
        seen, labels = self.batch(2, seed=3, count=count)
        self.assertEqual(sorted(labels), [0] * (count // 2) + [1] * (count // 2))
        flips, areas, shapes, lefts = 0, [], [], []
        for view in seen:
            columns, rows = view[0].mean(0) / 255 * width, view[1].mean(1) / 255 * height
            flipped = columns[-1] < columns[0]
            flips += int(flipped)
            # Centers of the outermost pixels of the view. Pixels outside of the box are not used.
            w, h = abs(columns[-3] - columns[2]).item() * SIZE / (SIZE - 5), abs(rows[-3] - rows[2]).item() * SIZE / (SIZE - 5)
            areas.append(w * h / (width * height))
            shapes.append(w / h)
            lefts.append(min(columns[0], columns[-1]).item())
        self.assertTrue(35 < flips < 85, flips)
        self.assertTrue(0.06 < min(areas) < 0.2 and 0.8 < max(areas) < 1.05, (min(areas), max(areas)))
        self.assertTrue(0.4 < sum(areas) / count < 0.6)
        self.assertTrue(0.7 < min(shapes) < 0.82 and 1.2 < max(shapes) < 1.45, (min(shapes), max(shapes)))
        self.assertGreater(len({round(left) for left in lefts}), 30)
        # The crops are the same for any split into batches and any number of threads, and differ in another epoch or
        # with another seed.
        parts = [self.batch(2, seed=3, first=first, count=30, threads=threads)[0] for first, threads in ((0, 1), (30, 3), (60, 2), (90, 4))]
        self.assertTrue(torch.equal(torch.cat(parts), seen))
        for other in (self.batch(2, seed=3, first=count, count=count), self.batch(2, seed=4, count=count)):
            self.assertFalse(torch.equal(other[0], seen))
            self.assertEqual(sorted(other[1]), sorted(labels))

    def test_bad_images_are_named_and_count_nothing(self):
        good = encoded(picture(50, 40), "jpeg")
        good_png = encoded(picture(50, 40), "png")
        frames = [picture(50, 40, i) for i in range(2)]
        header_only = good_png[: good_png.index(b"IDAT") + 10]
        flipped = bytearray(good_png)
        flipped[len(flipped) // 2] ^= 0x10
        bad = {
            "truncated.jpg": (good[: len(good) - 100], "damaged JPEG: the file ends too early"),
            "no_end.jpg": (good[:-2], "damaged JPEG: the file ends too early"),
            "noise.jpg": (with_noise(good), "damaged JPEG: "),
            "header.jpg": (good[:30], "damaged JPEG: "),
            "truncated.png": (good_png[: len(good_png) // 2], "damaged PNG: the file ends too early"),
            "header.png": (header_only, "damaged PNG: the file ends too early"),
            "flipped.png": (bytes(flipped), "damaged PNG: "),
            "png.jpg": (good_png, "is a PNG file, and its name says something else"),
            "jpeg.png": (good, "is a JPEG file, and its name says something else"),
            "png.bmp": (good_png, "is a PNG file, and its name says something else"),
            "cmyk.jpg": (encoded(picture(50, 40).convert("CMYK"), "jpeg"), "a JPEG in CMYK"),
            "deep.png": (png(2, 2, b"\0" * 26, depth=16), "a PNG of 16 bits a channel"),
            "moving.png": (encoded(frames[0], "png", save_all=True, append_images=frames[1:]), "an animated PNG"),
            "long.png": (png(100_000, 1, b"\0" * 300_001), "100000 x 1 pixels: a side is longer than 65,500"),
            "bomb.png": (png(60_000, 60_000, b""), "60000 x 60000 pixels: more than 178,956,970"),
            "thin.png": (png(1, 201, b"\0" * 804), "1 x 201 pixels: one side is more than 200 times the other"),
            "short.png": (png(40, 40, b"\0" * 500), "damaged PNG: "),
            "gif.png": (encoded(picture(50, 40), "gif"), "is neither a JPEG nor a PNG file"),
            "old.bmp": (encoded(picture(50, 40), "bmp"), "is neither a JPEG nor a PNG file"),
            "empty.jpg": (b"", "is empty"),
            "text.jpg": (b"not an image", "is neither a JPEG nor a PNG file"),
            "two\nlines\x1b[2J.jpg": (b"not an image", "is neither a JPEG nor a PNG file"),
        }
        for name, (data, _) in bad.items():
            self.write("a/" + name, data)
        for i in range(3):
            self.write("b/good%d.jpg" % i, good)
        for seed in (-1, 5):
            images, labels = self.batch(2, seed=seed, count=len(bad) + 3)
            self.assertEqual(len(self.bad), len(bad), self.bad)
            for name, (_, reason) in bad.items():
                name = name.replace("\n", "?").replace("\x1b", "?")
                self.assertTrue(any(line.startswith(self.root + "/a/" + name + ": " + reason) for line in self.bad), (name, reason, self.bad))
            self.assertEqual(sorted(labels), [-100] * len(bad) + [1] * 3)
            for image, label in zip(images, labels, strict=True):
                self.assertEqual(image.abs().max().item() == 0, label == -100)

    def test_a_failure_of_the_storage_is_no_bad_image(self):
        """Whether a disk answers must not decide which images are trained on."""
        if shutil.which("strace") is None:
            raise RuntimeError("this test needs strace: apt-get install strace")
        self.write("a/0.png", encoded(picture(8, 8), "png"))
        path = self.write("a/1.png", encoded(picture(8, 8), "png"))

        def read(injection, expect, fault=None):
            self.batch(1, expect=expect, fault=fault, before=("strace", "-f", "-qq", "-o", self.temporary.name + "/trace", "-P", path,
                                                 "-e", "trace=openat,read", "-e", "inject=" + injection))
        storage = "; the storage failed and not the image: mend the storage"
        for injection, reason in (("openat:error=EMFILE", "cannot be opened: Too many open files; raise the limit of open files (ulimit -n)"),
                                  ("openat:error=EIO", "cannot be opened: Input/output error" + storage),
                                  ("read:error=EIO", "cannot be read: Input/output error" + storage),
                                  ("read:error=ESTALE", "cannot be read: Stale file handle" + storage)):
            read(injection, expect=4, fault=injection + " of an image")
            self.assertIn(path + ": " + reason, self.errors)
        for injection in ("openat:error=ENOENT", "openat:error=EACCES"):
            read(injection, expect=0)
            self.assertEqual(len(self.bad), 1, self.bad)
            self.assertIn(path + ": cannot be opened: ", self.bad[0])

    def test_texts_of_a_png_take_no_memory(self):
        """60 texts of 7 kB unpack to 7 MB each."""
        def most_memory(texts):
            self.write("a/0.png", png(2, 2, b"\0" * 14, texts=texts))
            self.batch(1, before=(sys.executable, "-c", MEASURE, self.temporary.name + "/peak"))
            self.assertEqual(self.bad, [])
            with open(self.temporary.name + "/peak", encoding="utf-8") as file:
                return int(file.read())
        self.assertLess(most_memory([zlib.compress(b"x" * 7_000_000)] * 60), most_memory([]) + 100_000)

    def test_folders_that_do_not_fit(self):
        self.write("a/0.png", encoded(picture(8, 8), "png"))
        self.batch(2, expect=3)
        self.assertIn("has 1 folders of classes; model.classes is 2", self.errors)
        self.write("b/words.txt", b"")
        self.batch(2, expect=3)
        self.assertIn("/b: has no images; each class needs some", self.errors)
        os.symlink("loop", self.root + "/loop")
        self.batch(2, expect=3, fault="a symbolic link to itself")
        self.assertIn("/loop: cannot be examined: Too many levels of symbolic links", self.errors)
        os.rename(self.root + "/loop", self.root + "/a/loop")
        self.write("b/0.png", encoded(picture(8, 8), "png"))
        self.batch(2, expect=3)
        self.assertIn("/a/loop: cannot be examined: Too many levels of symbolic links", self.errors)
        os.remove(self.root + "/a/loop")
        os.symlink("nothing", self.root + "/a/gone.png")
        self.batch(2)
        for name, reason in (("nowhere", "No such file or directory"), ("n" * 300, "File name too long")):
            self.batch(2, expect=3, path=self.root + "/" + name)
            self.assertIn("%s: is no folder (%s); expected one with" % (name, reason), self.errors)


if __name__ == "__main__":
    unittest.main()
