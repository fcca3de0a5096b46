# SPDX-License-Identifier: MIT
"""What tools/bazel/gpu_code.py reads from objects, and that the code of each object is for the GPUs of its flags."""
import re
import struct
import sys
import unittest

import torch

sys.path.insert(0, "tools/bazel")
import gpu_code

CUBIN, PTX, SUFFIX_A = gpu_code.CUBIN, gpu_code.PTX, gpu_code.OF_ONE_ARCHITECTURE


def fat_binary(*images):
    body = b"".join(struct.pack("<HHIQQIIQQQQ", kind, 0x101, 64 + 8, len(code), 0, 0, capability, 0, flags, 0, 0) + bytes(8) + code
                    for kind, capability, flags, code in images)
    return struct.pack("<IHHQ", gpu_code.FATBIN, 1, 16, len(body)) + body


def elf_of(fat_binaries):
    """Returns an object with a section .nv_fatbin, as a host compiler writes it."""
    names = b"\0.shstrtab\0.nv_fatbin\0"
    content = 64 + len(names)
    table = content + len(fat_binaries)
    section = lambda name, offset, size: struct.pack("<IIQQQQIIQQ", name, 1, 0, 0, offset, size, 0, 0, 1, 0)
    head = b"\x7fELF\2\1\1" + bytes(33) + struct.pack("<QI6H", table, 0, 64, 0, 0, 64, 3, 1)
    return head + names + fat_binaries + section(0, 0, 0) + section(1, 64, len(names)) + section(11, content, len(fat_binaries))


def gpus(*images):
    return gpu_code.gpus_of_object(elf_of(fat_binary(*[image + (b"code",) for image in images])))


def source(named):
    """Returns the C++ of fat binaries of one image each, as triton_compile.py writes it."""
    escaped = lambda data: "".join(chr(byte) if 48 <= byte < 91 and byte != 63 else f"\\{byte:03o}" for byte in data)
    return "".join(f'alignas(16) constexpr char {name}[] =\n    "{escaped(fat_binary(image))}"\n    "{escaped(b"more")}";\n' for name, image in named)


class GpuCodeTest(unittest.TestCase):
    def test_images_give_the_gpus_that_run_them(self):
        self.assertEqual(gpus((CUBIN, 90, SUFFIX_A)), (90, 90))
        self.assertEqual(gpus((CUBIN, 90, SUFFIX_A), (PTX, 75, 0)), (75, None))
        self.assertEqual(gpus((PTX, 80, 0)), (80, None))

    def test_several_fat_binaries_in_one_object_are_all_read(self):
        both = fat_binary((CUBIN, 90, 0, b"x" * 9)) + bytes(8) + fat_binary((PTX, 75, 0, b"y"))
        self.assertEqual(gpu_code.gpus_of_object(elf_of(both)), (75, None))

    def test_images_that_are_no_range_are_refused(self):
        for images in ([(CUBIN, 80, 0), (CUBIN, 90, 0)], [(CUBIN, 80, 0), (PTX, 90, 0)], [(PTX, 90, SUFFIX_A)], [(7, 90, 0)], []):
            with self.assertRaises(ValueError, msg=images):
                gpus(*images)
        with self.assertRaises(ValueError):
            gpu_code.gpus_of_object(elf_of(b"no fat binary, and longer than 16 bytes"))

    def test_an_op_runs_where_all_its_code_runs(self):
        self.assertEqual(gpu_code.common([]), gpu_code.EVERY)
        self.assertEqual(gpu_code.common([(75, None), (90, 90)]), (90, 90))
        self.assertEqual(gpu_code.common([(80, None), (75, None)]), (80, None))
        with self.assertRaises(ValueError):
            gpu_code.common([(90, 90), (100, 100)])

    def test_ptx_beside_every_cubin_is_for_all_later_gpus(self):
        cubin, ptx = (CUBIN, 90, SUFFIX_A, b"code"), (PTX, 80, 0, b"code")
        both = [("k_a_0", cubin), ("ptx_a_0", ptx)]
        for named, expected in ((both, (80, None)), (both[:1], (90, 90)), (both + [("k_b_0", cubin)], (90, 90)),
                                (both + [("k_b_0", cubin), ("ptx_b_0", ptx)], (80, None))):
            self.assertEqual(gpu_code.gpus_of_source(source(named)), expected, named)
        for named in ([], [("k_a_0", cubin), ("ptx_a_0", (PTX, 80, SUFFIX_A, b"code"))], [("k_a_0", cubin), ("ptx_a_0", (PTX, 100, 0, b"code"))],
                      both[:1] + [("k_b_0", (CUBIN, 100, SUFFIX_A, b"code"))]):
            with self.assertRaises(ValueError, msg=named):
                gpu_code.gpus_of_source(source(named))

    def test_a_source_without_fat_binaries_is_refused(self):
        with self.assertRaises(ValueError):
            gpu_code.gpus_of_source('alignas(16) constexpr char k_scale_0[] =\n    "no fat binary, and longer than sixteen letters";\n')

    def test_a_row_has_the_limits_of_libraries(self):
        self.assertEqual(gpu_code.row("attention", 80, []), '    {"attention", {0}, {80}},')


class BuiltCodeTest(unittest.TestCase):
    def test_code_outside_of_ops_runs_where_it_is_called(self):
        oldest = int(re.search(r"kOldestCapability = (\d+);", read("sharding/config/device_choice.cc"))[1])
        for path in ("trainer/replicas/content_sum.cu.o", "trainer/faults/fault_kernels.cu.o"):
            self.assertEqual(gpu_code.gpus_of_file(path), (oldest, None), path)
        # is_on_hopper() is asked before these are called.
        for path in ("kernels/attention/cached/cached_attention.cu.o", "kernels/cuda/gelu_gemm.cu.o", "kernels/linear/few_rows.cu.o", "tools/generation/likeliest.cu.o"):
            self.assertEqual(gpu_code.gpus_of_file(path), (90, 90), path)

    def test_the_oldest_gpu_of_a_run_is_the_oldest_of_libtorch(self):
        oldest = int(re.search(r"kOldestCapability = (\d+);", read("sharding/config/device_choice.cc"))[1])
        architectures = torch._C._cuda_getArchFlags().split()
        self.assertEqual(min(int(name.removeprefix("sm_")) for name in architectures if name.startswith("sm_")), oldest)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


if __name__ == "__main__":
    unittest.main()
