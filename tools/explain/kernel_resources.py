# SPDX-License-Identifier: MIT
"""The compiled kernels of an op: their names, registers and shared memory, which cuobjdump reads from what was built."""
import collections
import glob
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile

# The fat binary of a cubin in the C++ that tools/triton_compile.py wrote, and its line in the table of variants.
CUBIN = re.compile(r"constexpr char (k_\w+)\[\] =\n((?: *\".*\"\n?)+);")
VARIANT = re.compile(r"\{(k_(\w+)_\d+), \d+, \"\w+\", \d+, (\d+)\}")
USAGE = re.compile(r"^ Function (.+):\n\s+REG:(\d+).*? SHARED:(\d+)", re.MULTILINE)


def find_cuobjdump():
    """The program of a CUDA toolkit or of the wheels, or None."""
    site = sysconfig.get_path("purelib")
    wheels = [f"{site}/nvidia/cu13/bin/cuobjdump", f"{site}/triton/backends/nvidia/bin/cuobjdump"]
    return shutil.which("cuobjdump") or next((path for path in wheels if os.access(path, os.X_OK)), None)


def usage(cuobjdump, path):
    """Triples (mangled name, registers, bytes of static shared memory) of the kernels in an object or a fat binary."""
    text = subprocess.run([cuobjdump, "--dump-resource-usage", path], capture_output=True, text=True, check=True).stdout
    return [(name, int(registers), int(shared)) for name, registers, shared in USAGE.findall(text)]


def plain_names(mangled):
    """The names of functions without namespaces, template arguments and parameters."""
    text = subprocess.run(["c++filt"], input="\n".join(mangled), capture_output=True, text=True, check=True).stdout
    return [re.match(r"(?:void )?(?:\w+::)*(\w+)", name.replace("(anonymous namespace)::", ""))[1] for name in text.splitlines()]


def cuda_kernels(cuobjdump, folder):
    """Triples (kernel, registers, shared memory) of the .cu files of a folder of built files."""
    found = [kernel for path in sorted(glob.glob(f"{folder}/*.cu.o")) for kernel in usage(cuobjdump, path)]
    names = plain_names([name for name, _, _ in found])
    return [(name, registers, shared) for name, (_, registers, shared) in zip(names, found)]


def triton_kernels(cuobjdump, folder):
    """The same of the cubins in the generated C++. Their shared memory is dynamic, so the table of variants has it."""
    found = []
    for path in sorted(glob.glob(f"{folder}/*_triton_kernels.cc")):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        variants = {symbol: (kernel, int(shared)) for symbol, kernel, shared in VARIANT.findall(text)}
        for symbol, literal in CUBIN.findall(text):
            kernel, shared = variants[symbol]
            with tempfile.NamedTemporaryFile(suffix=".fatbin") as image:
                image.write(decoded(literal))
                image.flush()
                found += [(kernel, registers, shared) for _, registers, _ in usage(cuobjdump, image.name)]
    return found


def decoded(literal):
    """The bytes of C++ strings whose only escapes are octal."""
    text = "".join(re.findall(r'^ *"(.*)"$', literal, re.MULTILINE))
    return re.sub(rb"\\(\d{3})", lambda octal: bytes([int(octal[1], 8)]), text.encode("ascii"))


def summary(kernels):
    """A line for each kernel with the range over its variants."""
    name_variants = collections.defaultdict(list)
    for name, registers, shared in kernels:
        name_variants[name].append((registers, shared))
    for name, variants in name_variants.items():
        registers, shared = (sorted(numbers) for numbers in zip(*variants))
        count = f"{len(variants)} variants" if len(variants) > 1 else "1 variant"
        yield f"{name}: {count}, {span(registers)} registers a thread, {span(shared)} bytes of shared memory a block"


def span(numbers):
    return str(numbers[0]) if numbers[0] == numbers[-1] else f"{numbers[0]} to {numbers[-1]}"
