# SPDX-License-Identifier: MIT
"""The PTX for GPUs from compute capability 8.0 on: ptxas compiles it for 8.0, so it has no instruction of Hopper. Nothing
here says that it computes what it should: on a Hopper GPU levels_agree_gpu_test and wide_rows_gpu_test do, with
STRATA_ARCHITECTURE=80."""
import glob
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import unittest

sys.path.insert(0, "tools/explain")
import kernel_resources

PTXAS = sysconfig.get_path("purelib") + "/nvidia/cu13/bin/ptxas"
OBJECTS = sorted(glob.glob("kernels/*/*.cu.o"))  # the BUILD file has the ops
PORTABLE = sorted(glob.glob("kernels/*/*_portable.o"))
SOURCES = sorted(glob.glob("kernels/*/*_triton_kernels.cc"))
# Those of one kernel differ in sizes, types and alignment. They are in order.
IMAGE = re.compile(r"constexpr char ptx_(\w+)_\d+\[\] =\n((?: *\".*\"\n?)+);")


def ptx_of(path):
    """Returns the PTX for 8.0 in an object or a fat binary that has no other PTX."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([kernel_resources.find_cuobjdump(), "-xptx", "all", os.path.abspath(path)], cwd=folder, capture_output=True, check=True)
        name, = os.listdir(folder)
        if not name.endswith(".sm_80.ptx"):
            raise AssertionError(f"{path} has {name}, expected PTX for 8.0")
        with open(os.path.join(folder, name), "rb") as file:
            return file.read()


def problem_of(ptx):
    """Returns what ptxas says against it, or ""."""
    return assembled(ptx).stderr


def assembled(ptx, *flags):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernel.ptx")
        with open(path, "wb") as file:
            file.write(ptx)
        return subprocess.run([PTXAS, "-arch=sm_80", *flags, path, "-o", path + ".cubin"], capture_output=True, text=True, check=False)


def linked_names(path):
    """The functions of an object that other objects can see. The linker takes one of those with one name for all objects."""
    text = subprocess.run(["nm", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r" [A-Z] (_ZN6strata\w+)$", text, re.MULTILINE))


class PortableCodeTest(unittest.TestCase):
    def test_level_cuda(self):
        self.assertTrue(OBJECTS)
        for path in OBJECTS:
            with self.subTest(path):
                done = assembled(ptx_of(path), "-v")
                self.assertEqual(done.returncode, 0, done.stderr)
                spills = [int(number) for number in re.findall(r"(\d+) bytes spill stores", done.stderr)]
                self.assertLessEqual(max(spills), 4, "bytes of registers that a kernel keeps in memory")

    def test_no_function_has_one_name_in_both_objects_of_a_file(self):
        self.assertTrue(PORTABLE)
        for path in PORTABLE:
            with self.subTest(path):
                self.assertEqual(linked_names(path) & linked_names(path.replace("_portable.o", "_hopper.o")), set())

    def test_the_first_and_the_last_variant_of_each_kernel_of_level_triton(self):
        self.assertTrue(SOURCES)
        for path in SOURCES:
            with open(path, encoding="utf-8") as file:
                images = IMAGE.findall(file.read())
            self.assertTrue(images, path)
            for kernel in {name for name, _ in images}:
                kernel_images = [literal for name, literal in images if name == kernel]
                for literal in {kernel_images[0], kernel_images[-1]}:
                    with self.subTest(kernel), tempfile.NamedTemporaryFile(suffix=".fatbin") as image:
                        image.write(kernel_resources.decoded(literal))
                        image.flush()
                        ptx = ptx_of(image.name)
                        self.assertRegex(ptx, rb"\n\.visible \.entry ")
                        self.assertEqual(problem_of(ptx), "")

    def test_an_instruction_of_hopper_is_found(self):
        ptx = b".version 8.7\n.target sm_80\n.address_size 64\n.visible .entry wait()\n{\n%s\nret;\n}\n"
        self.assertEqual(problem_of(ptx % b""), "")
        self.assertIn("griddepcontrol", problem_of(ptx % b"griddepcontrol.wait;"))


if __name__ == "__main__":
    unittest.main()
