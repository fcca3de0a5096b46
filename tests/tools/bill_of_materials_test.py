# SPDX-License-Identifier: MIT
"""Checks the bill of materials of an archive: what SPDX 2.3 requires, the wheels of the lock file, and the packages that dpkg knows."""
import json
import os
import re
import subprocess
import sys
import unittest

SCRIPT, REQUIREMENTS, PACKAGES = "tools/bill_of_materials.py", "tools/requirements.txt", "tools/packages.txt"
STATUS = "/var/lib/dpkg/status"
HASH = "0" * 64


def run(*arguments):
    return subprocess.run([sys.executable, "-B", SCRIPT, *arguments], capture_output=True, text=True, check=False)


def written(*arguments):
    result = run(*arguments)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


class BillTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bill = written(REQUIREMENTS, PACKAGES, STATUS)
        cls.packages = {package["SPDXID"]: package for package in cls.bill["packages"]}

    def related(self, one, kind):
        return {line["relatedSpdxElement"] for line in self.bill["relationships"] if (line["spdxElementId"], line["relationshipType"]) == (one, kind)}

    def test_has_what_the_schema_requires(self):
        self.assertEqual((self.bill["spdxVersion"], self.bill["dataLicense"], self.bill["SPDXID"]), ("SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT"))
        self.assertRegex(self.bill["documentNamespace"], r"^[a-z]+:[^#]+$")
        self.assertTrue(self.bill["name"])
        self.assertRegex(self.bill["creationInfo"]["created"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertRegex(self.bill["creationInfo"]["creators"][0], "^Tool: ")
        self.assertEqual(len(self.packages), len(self.bill["packages"]), "two packages have one identifier")
        for package in self.bill["packages"]:
            self.assertRegex(package["SPDXID"], r"^SPDXRef-[A-Za-z0-9.-]+$")
            self.assertTrue(package["name"] and package["downloadLocation"])
            for checksum in package.get("checksums", []):
                self.assertEqual(checksum["algorithm"], "SHA256")
                self.assertRegex(checksum["checksumValue"], "^[0-9a-f]{64}$")
            for reference in package.get("externalRefs", []):
                self.assertEqual((reference["referenceCategory"], reference["referenceType"]), ("PACKAGE-MANAGER", "purl"))
                self.assertRegex(reference["referenceLocator"], r"^pkg:(pypi|deb/debian)/[a-z0-9.%B-]+@[\w.%~-]+$")
        for line in self.bill["relationships"]:
            self.assertLessEqual({line["spdxElementId"], line["relatedSpdxElement"]}, {"SPDXRef-DOCUMENT", *self.packages})
        self.assertEqual(self.related("SPDXRef-DOCUMENT", "DESCRIBES"), {"SPDXRef-archive"})

    def test_has_the_wheels_of_the_lock_file_with_their_hashes(self):
        with open(REQUIREMENTS, encoding="utf-8") as file:
            pins = dict(re.findall(r"^([\w.-]+)==(.*(?:\n +--hash.*)+)", file.read(), re.MULTILINE))
        self.assertGreater(len(pins), 50)
        wheels = {package["name"]: package for name, package in self.packages.items() if name.startswith("SPDXRef-wheel-")}
        self.assertEqual(set(wheels), set(pins))
        for name, pin in pins.items():
            self.assertEqual(wheels[name]["versionInfo"], pin.split()[0], name)
            self.assertEqual([checksum["checksumValue"] for checksum in wheels[name]["checksums"]], re.findall("sha256:([0-9a-f]+)", pin), name)
        for part, wheel in (("LibTorch", "torch"), ("CUDA", "cuda-toolkit"), ("cuDNN", "nvidia-cudnn-cu13"), ("NCCL", "nvidia-nccl-cu13")):
            self.assertEqual(self.related("SPDXRef-wheel-" + wheel, "CONTAINS"), {"SPDXRef-part-" + part})
            self.assertEqual(self.packages["SPDXRef-part-" + part]["versionInfo"], wheels[wheel]["versionInfo"])

    def test_has_the_packages_of_debian_that_dpkg_knows(self):
        with open(PACKAGES, encoding="utf-8") as file:
            names = re.sub("#.*", "", file.read()).split()
        found = {package["name"]: package["versionInfo"] for name, package in self.packages.items() if name.startswith("SPDXRef-debian-")}
        lines = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *names], capture_output=True, check=True, text=True).stdout
        self.assertEqual(found, dict(line.split() for line in lines.splitlines()))
        used = self.related("SPDXRef-archive", "DEPENDS_ON")
        self.assertLessEqual({"SPDXRef-debian-libyaml-cpp-dev", "SPDXRef-debian-libopenmpi-dev", "SPDXRef-wheel-torch"}, used)
        self.assertEqual(self.related("SPDXRef-debian-bazel-bootstrap", "BUILD_DEPENDENCY_OF"), {"SPDXRef-archive"})
        self.assertEqual(self.related("SPDXRef-debian-strace", "TEST_DEPENDENCY_OF"), {"SPDXRef-archive"})
        self.assertFalse({"SPDXRef-debian-bazel-bootstrap", "SPDXRef-debian-strace"} & used)

    def test_the_same_input_gives_the_same_bytes(self):
        self.assertEqual(self.bill, written(REQUIREMENTS, PACKAGES, STATUS))

    def file(self, name, text):
        path = os.path.join(os.environ["TEST_TMPDIR"], name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_what_is_wrong_is_named(self):
        pins = "".join(f"{name}==1 --hash=sha256:{HASH}\n" for name in ("torch", "cuda-toolkit", "nvidia-cudnn-cu13", "nvidia-nccl-cu13"))
        good = {"pins": pins, "packages": "a b # tests\n", "status": "Package: a\nStatus: install ok installed\nVersion: 1:2+3\n\n"
                                                                      "Package: b\nStatus: install ok installed\nVersion: 4~5\n"}
        made = written(*[self.file(name, text) for name, text in good.items()])
        locators = [package["externalRefs"][0]["referenceLocator"] for package in made["packages"][-2:]]
        self.assertEqual(locators, ["pkg:deb/debian/a@1%3A2%2B3", "pkg:deb/debian/b@4~5"])
        for change, message in (({"pins": pins + "numpy==2\n"}, "pins: expected NAME==VERSION --hash=sha256:HASH..., got: numpy==2"),
                                ({"pins": pins.replace("nvidia-nccl-cu13", "nccl")}, "pins: has no wheel nvidia-nccl-cu13, which has NCCL"),
                                ({"packages": "a c"}, "status: the package c of "),
                                ({"status": good["status"].replace("install ok installed", "deinstall ok config-files")}, "status: the package a of ")):
            with self.subTest(message):
                result = run(*[self.file(name, text) for name, text in {**good, **change}.items()])
                self.assertEqual((result.returncode, result.stdout), (3, ""))
                self.assertIn(message, result.stderr)
        self.assertEqual(run(REQUIREMENTS, PACKAGES).returncode, 2)
        self.assertEqual(run(REQUIREMENTS, PACKAGES, "/nowhere").returncode, 4)


if __name__ == "__main__":
    unittest.main()
