# SPDX-License-Identifier: MIT
"""What the sources say of an op and of its levels: the menu, the comments of headers and those at the head of files."""
import os
import re

import menu

LEVELS = ("aten", "torchscript", "aot_inductor", "triton", "cuda")
MENU, TABLE = "kernels/kernels.h", "docs/kernels.md"
# The file of a level by the end of its name. The definition, <op>.py, is what level torchscript compiles.
ENDINGS = (("_triton.py", "triton"), ("_triton.cc", "triton"), ("_cuda.cc", "cuda"), ("_cuda.h", "cuda"), (".cu", "cuda"), (".cuh", "cuda"),
           ("_programs.py", "aot_inductor"), ("_aot_inductor.cc", "aot_inductor"))
KINDS = (".h", ".cc", ".cu", ".cuh", ".py")
NOT_OF_LEVELS = ("_test.cc", "_test.py", "_proof.cc", "_shape.h", "_shape.cc", "_choices.py")
# Files of other folders with functions of kernels.
INCLUDED = re.compile(r'^#include "(kernels/\w+/\w+\.cuh)"|^from (kernels\.\w+\.\w+_triton) import', re.MULTILINE)
MENTION = re.compile(rf"\b[Ll]evels? ({'|'.join(LEVELS)})\b")
# Headers in folders below the folder of the op, which its files include.
OF_SUBFOLDER = re.compile(r'^#include "(kernels/\w+/\w+/\w+\.h)"', re.MULTILINE)
BEGINS = re.compile(rf"(?=\bLevels? (?:{'|'.join(LEVELS)}) of )")


class Sources:
    """The sources below the root of a checkout."""

    def __init__(self, root):
        self.root = root
        self.menu = self.read_menu()

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            return file.read()

    def read_menu(self):
        """op -> (its line in the menu, its folder). Functions that are no op have lines too."""
        entries, waiting = {}, []
        for line in self.read(MENU).split("#pragma once", 1)[1].splitlines():
            if name := re.match(r"// (\w+)\(", line):
                waiting.append([name[1], line[3:]])
            elif line.startswith("// "):
                waiting[-1][1] += " " + line[3:]
            elif folder := re.match(r'#include "kernels/(\w+)/', line):
                entries.update({name: (text, folder[1]) for name, text in waiting})
                waiting = []
        return entries

    def folder(self, op):
        return self.menu[op][1]

    def formula(self, op):
        return self.menu[op][0]

    def contract(self, op):
        """Shapes, saved tensors and errors: the comment of the op's declaration."""
        found = menu.functions(self.read(f"kernels/{self.folder(op)}/{self.folder(op)}.h"))
        return plain(found[op][1]) if op in found else ""

    def definition(self, op):
        return self.head(f"kernels/{self.folder(op)}/{self.folder(op)}.h")

    def head(self, path):
        """The comment at the head of a file, without a legend of letters; "" if there is none."""
        text = self.read(path)
        if path.endswith(".py") and (docstring := re.search(r'\A(?:#.*\n)*"""(.*?)"""', text, re.DOTALL)):
            return " ".join(docstring[1].split())
        comment = re.match(r"(?:# .*\n|#!.*\n)*" if path.endswith(".py") else r"(?://.*\n)*", text)[0]
        return plain("".join(line + "\n" for line in comment.splitlines() if "SPDX" not in line))

    def level_texts(self, op):
        """level -> [(path, text)] of the files of the op's folder, and of those that its kernels include."""
        found = {level: [] for level in LEVELS}
        folder = f"kernels/{self.folder(op)}"
        paths = [f"{folder}/{name}" for name in sorted(os.listdir(os.path.join(self.root, folder))) if name.endswith(KINDS)]
        included = {header for path in paths for header in OF_SUBFOLDER.findall(self.read(path)) if header.startswith(folder + "/")}
        for path in paths + sorted(included):
            name = os.path.basename(path)
            if name.endswith(NOT_OF_LEVELS) or name == self.folder(op) + ".h":
                continue
            for level, text in self.parts(path):
                found[level].append((path, text))
            if name.endswith((".cu", "_triton.py")):
                level = "triton" if name.endswith(".py") else "cuda"
                for header, module in INCLUDED.findall(self.read(path)):
                    other = header or module.replace(".", "/") + ".py"
                    if not other.startswith(folder + "/") and (text := self.head(other)):
                        found[level].append((other, text))
        return {level: list(dict.fromkeys(files)) for level, files in found.items()}

    def parts(self, path):
        """Pairs (level, text) of the head of one file."""
        text, name, folder = self.head(path), os.path.basename(path), os.path.basename(os.path.dirname(path))
        if not text:
            return
        level = next((level for ending, level in ENDINGS if name.endswith(ending)), None)
        if level is None and name == folder + ".py":
            level = "torchscript"
        if level is not None:
            yield level, text
        elif BEGINS.match(text) or name == folder + ".cc":  # which first says what else it has
            for part in BEGINS.split(text)[1:]:
                yield MENTION.search(part)[1], part.strip()
        else:
            for level in sorted(set(MENTION.findall(text))):
                yield level, text

    def rows(self):
        """level -> (what runs, how it is differentiated), of the table in docs/kernels.md, without the targets of links."""
        table = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", self.read(TABLE))
        return {level: (runs, gradient) for level, runs, gradient in re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", table, re.MULTILINE)
                if level in LEVELS}


def plain(comment):
    """The text of a comment: one line for each line of a formula, which is indented, and one for the words between. What
    follows the last period, such as a legend of letters, is no sentence."""
    lines = []
    for line in comment.splitlines():
        words = re.sub(r"^(//|#) ?", "", line)
        if lines and not words.startswith("  ") and not lines[-1].startswith("  "):
            lines[-1] += " " + words
        else:
            lines.append(words)
    if lines and not lines[-1].startswith("  "):
        lines[-1] = lines[-1][:lines[-1].rfind(".") + 1]
    return "\n".join(line for line in lines if line.strip())
