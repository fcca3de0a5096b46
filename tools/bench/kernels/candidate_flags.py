# SPDX-License-Identifier: MIT
"""Prints the options of the compiler for a library with kernels of your own (kernels/candidate.h):

    g++ -O3 -fPIC -shared my_kernels.cc -o my_kernels.so $(tools/strata bench flags)

They are the folders of headers, and a hash of the declarations of all ops. The program has a hash too, of the headers
that it was compiled with, and compares them: another order of arguments or members would not be noticed at run time.

    python3 tools/bench/kernels/candidate_flags.py --header FOLDER    the header with this hash, for the program
"""
import hashlib
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
MENU = "kernels/kernels.h"  # it includes the header of each op
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*")', re.DOTALL)
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def code_of(text):
    """Returns the text without comments and empty lines."""
    lines = COMMENT_OR_TEXT.sub(lambda found: found.group(1) or "", text).split("\n")
    return "\n".join(line.strip() for line in lines if line.strip())


def declarations(root):
    """Returns the code of the menu and of all headers that it includes, by path."""
    found, open_paths = {}, [MENU]
    while open_paths:
        path = open_paths.pop()
        if path in found:
            continue
        with open(os.path.join(root, path), encoding="utf-8") as file:
            found[path] = code_of(file.read())
        open_paths += INCLUDE.findall(found[path])
    return found


def hash_of(root):
    whole = hashlib.sha256()
    for path, code in sorted(declarations(root).items()):
        whole.update(f"{path}\n{code}\n".encode())
    return whole.hexdigest()[:16]


def options(root):
    import torch  # which takes seconds

    site = os.path.dirname(torch.__path__[0])
    folders = [torch.__path__[0] + "/include", torch.__path__[0] + "/include/torch/csrc/api/include", site + "/nvidia/cu13/include"]
    return ["-std=c++20", "-DAT_PER_OPERATOR_HEADERS", f"-DSTRATA_DECLARATIONS={hash_of(root)}", f"-I{root}",
            *[word for folder in folders if os.path.isdir(folder) for word in ("-isystem", folder)]]  # fmt: skip


def main():
    if sys.argv[1:2] == ["--header"]:
        print(f'#pragma once\nstatic constexpr char kDeclarations[] = "{hash_of(sys.argv[2])}";')
    else:
        print(*options(ROOT))


if __name__ == "__main__":
    main()
