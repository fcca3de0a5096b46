# SPDX-License-Identifier: MIT
"""Checks tar archives of images: they are read in sequence, in orders that depend on seed and epoch, and broken ones
are refused."""

import gzip
import io
import os
import shutil
import subprocess
import tarfile
import unittest

import torch
from encoded_pictures import SIZE, ImageBatches, encoded, picture
from PIL import Image

LIST = os.path.abspath("tests/trainer/data/list_archives")
FORMATS = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)


def colored(number):
    """An image whose color encodes its number."""
    return encoded(Image.new("RGB", (SIZE, SIZE), (number * 2, 255 - number * 2, 0)), "png")


def number_of(image):
    return round(image[0].mean().item() / 2)


class WebDatasetTest(ImageBatches):
    def setUp(self):
        super().setUp()
        os.mkdir(self.root)
        self.pattern = self.root + "/*.tar"

    def archive(self, name, members, form=tarfile.PAX_FORMAT):
        """Writes an archive. Members are pairs of names and contents, or TarInfos."""
        path = os.path.join(self.root, name)
        with tarfile.open(path, "w", format=form) as file:
            for member in members:
                if isinstance(member, tarfile.TarInfo):
                    file.addfile(member, io.BytesIO(bytes(member.size)))
                    continue
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                file.addfile(info, io.BytesIO(member[1]))
        return path

    def samples(self, first, count, suffix="png"):
        for i in range(first, first + count):
            yield "part/%06d.%s" % (i, suffix), colored(i)
            yield "part/%06d.cls" % i, b"%d\n" % (i % 7)

    def read(self, classes=7, shuffle=1, **options):
        return self.batch(classes, kind=str(shuffle), path=self.pattern, **options)

    def three_archives(self):
        for i, (first, count) in enumerate(((0, 23), (23, 40), (63, 7))):
            self.archive("%d.tar" % i, self.samples(first, count), FORMATS[i])

    def test_evaluation_sees_all_in_the_order_of_the_archives(self):
        self.three_archives()
        images, labels = self.read()
        self.assertEqual(self.bad, [])
        self.assertEqual([number_of(image) for image in images], list(range(70)))
        self.assertEqual(labels, [i % 7 for i in range(70)])
        part, _ = self.read(first=20, count=30)
        self.assertTrue(torch.equal(part, images[20:50]))

    def test_each_epoch_visits_each_image_once_in_an_order_of_its_own(self):
        self.three_archives()
        orders = []
        for seed, epoch in ((1, 0), (1, 1), (1, 2), (2, 0)):
            images, labels = self.read(shuffle=10, seed=seed, first=70 * epoch, count=70)
            order = [number_of(image) for image in images]
            self.assertEqual(sorted(order), list(range(70)))
            self.assertEqual(labels, [i % 7 for i in order])
            # Ten consecutive samples of an archive stay together.
            where = [(sum(i >= first for first in (0, 23, 63)), (i - (0, 23, 63)[sum(i >= first for first in (0, 23, 63)) - 1]) // 10) for i in order]
            self.assertEqual(len([i for i in range(1, 70) if where[i] != where[i - 1]]) + 1, len(set(where)))
            orders.append(order)
        self.assertEqual(len({tuple(order) for order in orders}), 4)
        self.assertEqual(len({tuple(order[:3]) for order in orders}), 4)
        # The samples are the same for any split into batches, with any shuffle, also across the end of an epoch.
        for shuffle in (1, 10, 1000):
            whole, _ = self.read(shuffle=shuffle, seed=1, first=50, count=60)
            parts = [self.read(shuffle=shuffle, seed=1, first=first, count=15, threads=3)[0] for first in range(50, 110, 15)]
            self.assertTrue(torch.equal(torch.cat(parts), whole), shuffle)

    def test_other_members_and_suffixes(self):
        members = [("a.json", b"{}"), ("a.jpg", encoded(picture(40, 40), "jpeg")), ("a.txt", b"words"), ("a.cls", b"1"),
                   ("deep.er/b.JPEG", encoded(picture(40, 50), "jpeg")), ("deep.er/b.cls", b"0\r\n"), ("deep.er/notes.md", b""),
                   ("größe.png", colored(1)), ("größe.cls", b"1")]
        folder = tarfile.TarInfo("empty")
        folder.type = tarfile.DIRTYPE
        self.archive("one.tar", [folder, *members])
        _, labels = self.read(classes=2)
        self.assertEqual(labels, [1, 0, 1])

    def test_fingerprints_tell_archives_apart(self):
        self.archive("a.tar", self.samples(0, 5))
        self.read()
        first = self.fingerprint
        os.rename(self.root + "/a.tar", self.root + "/b.tar")
        self.read()
        self.assertEqual(self.fingerprint, first)
        self.archive("b.tar", self.samples(0, 6))
        self.read()
        self.assertNotEqual(self.fingerprint, first)

    def test_bad_images_are_named(self):
        good = encoded(picture(50, 40), "jpeg")
        self.archive("a.tar", [("x.jpg", good), ("x.cls", b"0"), ("y.jpg", good[:100]), ("y.cls", b"0"), ("z.png", good), ("z.cls", b"0")])
        images, labels = self.read()
        self.assertEqual(labels, [0, -100, -100])
        self.assertEqual(images[1:].abs().max().item(), 0)
        self.assertEqual(sorted(self.bad)[1], self.root + "/a.tar:z.png: is a JPEG file, and its name says something else")
        self.assertTrue(sorted(self.bad)[0].startswith(self.root + "/a.tar:y.jpg: damaged JPEG: "), self.bad)

    def refuse(self, reason, code=3, before=()):
        done = subprocess.run([*before, LIST, self.pattern, "7"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn(reason, done.stderr)

    def test_a_failure_of_the_storage_is_no_damage(self):
        if shutil.which("strace") is None:
            raise RuntimeError("this test needs strace: apt-get install strace")
        path = self.archive("0.tar", self.samples(0, 2))
        for which in ("1", "2+"):  # the first read is libarchive's, and a later one that of the end
            injection = "inject=read:error=EIO:when=" + which
            self.refuse(path + ": cannot be read: ", code=4, before=("strace", "-qq", "-o", self.temporary.name + "/trace", "-P", path,
                                                                     "-e", "trace=read", "-e", injection))

    def refused(self, reason, members=None, data=None, **options):
        path = self.root + "/bad.tar"
        if data is None:
            self.archive("bad.tar", members, **options)
        else:
            with open(path, "wb") as file:
                file.write(data)
        self.refuse(path + ": " + reason)

    def test_archives_that_are_refused(self):
        image, two = colored(1), list(self.samples(0, 2))

        def link(kind, target):
            info = tarfile.TarInfo("link.png")
            info.type, info.linkname = kind, target
            return info

        for form in FORMATS:
            self.refused("holds '../x.png', a name that leads out of its folder", [("../x.png", image)], form=form)
            self.refused("holds 'link.png', which is a link", [*two, link(tarfile.LNKTYPE, "part/000000.png")], form=form)
        for name in ("/etc/x.png", "a/../../x.png", "a/.."):
            self.refused("holds '%s', a name that leads out of its folder" % name, [(name, image)])
        self.refused("holds 'link.png', which is a link", [link(tarfile.SYMTYPE, "/etc/passwd")])
        self.refused("holds 'link.png', which is a device", [link(tarfile.FIFOTYPE, "")])
        self.refused("holds a name with control characters: a?[2J.png", [("a\x1b[2J.png", image)])
        self.refused("'part/000002' has no label; expected part/000002.cls beside its image", [*two, ("part/000002.png", image)])
        self.refused("'c' has no image; expected .jpg, .jpeg or .png beside its .cls", [("c.cls", b"1"), *two])
        self.refused("'part/000000' has no label", [two[0], *list(self.samples(1, 1)), two[1]])
        self.refused("'c' has two images", [("c.png", image), ("c.jpg", image), ("c.cls", b"1")])
        self.refused("'c' has two labels", [("c.png", image), ("c.cls", b"1"), ("c.cls", b"1")])
        self.refused("holds '.png', which has no name", [(".png", image)])
        for label in (b"", b"one", b"1.5", b"1 2", b"9" * 30, b"1" * 100):
            self.refused("'c.cls' is not a number", [("c.png", image), ("c.cls", label)])
        for label in (b"7", b"-1"):
            self.refused("'c.cls' is %s, outside of the 7 classes" % label.decode(), [("c.png", image), ("c.cls", label)])
        self.refused("holds no images with labels", [("words.txt", b"words")])
        self.refused("is empty; expected a tar archive", data=b"")
        self.refused("is no tar archive or a damaged one", data=b"words" * 1000)
        with open(self.archive("good.tar", two), "rb") as file:
            good = file.read()
        os.remove(self.root + "/good.tar")
        self.refused("is no tar archive or a damaged one (compressed ones are not read): ", data=gzip.compress(good))
        end = len(good.rstrip(b"\0")) // 512 * 512 + 512
        for foreign in (good, b"\0" * 5000 + b"x" + b"\0" * 5000):  # two archives in a file, as cat makes it, and a stray byte
            self.refused("goes on at byte %d, after the zeros" % ((len(good) + foreign.index(foreign.strip(b"\0"))) // 512 * 512), data=good + foreign)
        self.refused("ends too early: the zeros that end a tar archive are missing", data=good[:end])
        self.pattern = self.root + "/none-*.tar"
        self.refuse("none-*.tar: no such file; expected tar archives")

    def test_archives_that_are_cut_or_lie(self):
        path = self.archive("bad.tar", list(self.samples(0, 3)), tarfile.USTAR_FORMAT)
        with open(path, "rb") as file:
            whole = file.read()
        end = len(whole.rstrip(b"\0")) // 512 * 512 + 512
        # The archive may be cut anywhere, in the first header too, and between two files.
        for cut in [*range(100, end, 171), *range(512, end + 1, 512)]:
            with open(path, "wb") as file:
                file.write(whole[:cut])
            self.refuse(path + ": ")
        # These are sizes of the first image in its header, with the right checksum.
        for size, reason in ((10**7, "says that 'part/000000.png' has 10000000 bytes; "),
                             (8 * 2**30 - 1, "says that 'part/000000.png' has 8589934591 bytes; ")):
            header = bytearray(whole[:512])
            header[124:136] = b"%011o\0" % size
            header[148:156] = b" " * 8
            header[148:156] = b"%06o\0 " % sum(header)
            self.refused(reason, data=bytes(header) + whole[512:])
        # Sizes of 2^63 and above, and negative ones, as a number in binary and as text of a PAX header.
        for size in (b"\x80" + (2**63).to_bytes(11, "big"), b"\x80" + (2**80).to_bytes(11, "big"), b"\xff" * 12):
            header = bytearray(whole[:512])
            header[124:136] = size
            header[148:156] = b" " * 8
            header[148:156] = b"%06o\0 " % sum(header)
            self.refused("is no tar archive or a damaged one: Tar entry ", data=bytes(header) + whole[512:])
        for size in ("9223372036854775807", "9223372036854775808", "18446744073709551616", "-1"):
            info = tarfile.TarInfo("a.png")
            info.pax_headers = {"size": size}
            self.refused("is no tar archive or a damaged one: Tar size attribute ", [info, ("a.cls", b"1")])
        # Each of these images would fit into the archive: 1.5 MB that claim 3 MB.
        filler = ("z.txt", b"z" * 1500000)
        for claim in ({"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.name": "%d.png", "GNU.sparse.size": "1000000", "GNU.sparse.map": "0,512"},
                      {"GNU.sparse.realsize": "1000000"}):
            members = []
            for i in range(3):
                info = tarfile.TarInfo("%d.png" % i)
                info.pax_headers = {key: value.replace("%d", str(i)) for key, value in claim.items()}
                members += [info, ("%d.cls" % i, b"1")]
            self.refused("says that '0.png' has 1000000 bytes, 998976 more than the archive has for it; sparse files", [*members, filler])
        header = bytearray(whole[:512])
        header[124:136] = b"%011o\0" % 1024  # the checksum belongs to another size
        self.refused("is no tar archive or a damaged one", data=bytes(header) + whole[512:])
        # A size that is too small is damage of that one image.
        header[124:136] = b"%011o\0" % 10
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
        with open(path, "wb") as file:
            file.write(bytes(header) + whole[512:])
        _, labels = self.read()
        self.assertEqual(labels, [-100, 1, 2])
        self.assertEqual(self.bad, [path + ":part/000000.png: damaged PNG: the file ends too early"])


if __name__ == "__main__":
    unittest.main()
