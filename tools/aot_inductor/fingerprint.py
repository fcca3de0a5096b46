# SPDX-License-Identifier: MIT
"""fingerprint.py PROGRAMS...: prints the header kernels/runtime/package_sources.h, with hashes of the files that packages
are made from. They are parts of every key, so that a package of other sources is not found.

PROGRAMS are the files kernels/<op>/<op>_programs.py.
"""
import functools
import glob
import hashlib
import os
import sys

HEADER = """#pragma once
#include <string_view>
#include <utility>
static constexpr char kCompilerSources[] = "{compiler}";
static constexpr std::pair<std::string_view, std::string_view> kProgramSources[] = {{
{programs}}};
"""


def sha1(path):
    with open(path, "rb") as file:
        return hashlib.sha1(file.read()).hexdigest()


@functools.cache
def compiler_facts(folder=os.path.dirname(__file__)):
    """Returns the hash of the files of this folder, but for the one that chooses what is compiled and not how."""
    paths = sorted(glob.glob(os.path.join(folder, "*.py")))
    lines = [f"{os.path.basename(path)} {sha1(path)}" for path in paths if os.path.basename(path) != "make_for_config.py"]
    return hashlib.sha1("\n".join(lines).encode()).hexdigest()


@functools.cache
def lines_of(formula):
    """Returns the lines of a key that hold the sources of an op. `formula` is the path of its <op>.py."""
    programs = formula[: -len(".py")] + "_programs.py"
    return [f"formula {sha1(formula)}", f"programs {sha1(programs)}", f"compiler {compiler_facts()}"]


def main():
    entries = []
    for path in sorted(sys.argv[1:]):
        op = os.path.basename(path)[: -len("_programs.py")]
        entries.append(f'    {{"{op}", "{sha1(path)}"}},\n')
    print(HEADER.format(compiler=compiler_facts(), programs="".join(entries)), end="")


if __name__ == "__main__":
    main()
