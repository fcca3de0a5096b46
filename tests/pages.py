# SPDX-License-Identifier: MIT
"""Checks of the documentation pages: long sentences, dead links, names of things that do not exist."""
import fnmatch
import glob
import os
import re

import sources

MAX_WORDS = 35  # per sentence
LONG_SENTENCES = {"README.md": 3}  # that a page may have
MAX_LINES = {"README.md": 180}
# These pages are generated from descriptions of keys, from tables of kernels, and from comments.
GENERATED = ("docs/configuration.md", "docs/levels.md", "docs/ops.md", "docs/patterns.md")

TEXTS = (".h", ".cc", ".cu", ".cuh", ".py", ".sh", ".bzl", ".yaml", ".txt", "BUILD", "strata")
NOT_ANSWERED_FOR = ("tests/pages.py", "tests/readme_test.py")  # these files name wrong things on purpose
# Commands or users create these paths, so no checkout has them.
MADE = ("runs/", "data/", "weights/", "plans/", "checkpoints/", "profile/", "ledger/", "nonfinite-step-N/", "root/", "~/")
# Names of PyTorch, of comparable projects, and of users.
FOREIGN = {"torch/torch.h", "AttentionalAggregation", "global_add_pool", "global_mean_pool", "fc_norm", "get_cosine_schedule_with_warmup",
           "hosts.txt", "train.bin.json"}

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")
SPAN = re.compile(r"`([^`]+)`")
PATH = re.compile(r"[\w.{},*<>~:-]*/[\w.{},*<>/:-]*")
FILE = re.compile(r"[\w.<>*-]+\.(?:h|cc|cuh?|py|sh|bzl|yaml|md|jsonl?|txt|bin|npz|svg)")
KEY = re.compile(r"([a-z_]+(?:\.[\w-]+)*)(?:[:=].*)?")
PLACED = re.compile(r"`([\w:]+)` in (?:`([\w./]+)`|\[[^\]]*\]\(([\w./]+)\))")  # `function` in `file`, or in a link
WORD = re.compile(r"[A-Za-z_]\w{2,}")


def paths(root):
    """Returns the pages of a checkout, relative to it."""
    found = [os.path.relpath(path, root) for pattern in ("*.md", "docs/*.md") for path in glob.glob(os.path.join(root, pattern))]
    return sorted(found)


def blocks(text):
    """Returns the text of each block of code."""
    return [block for _, block in FENCE.findall(text)]


def paragraphs(text):
    """Returns the prose of a page, each paragraph, list item or table cell on one line."""
    found, current = [], []

    def end():
        if current:
            found.append(" ".join(current))
            current.clear()

    for line in FENCE.sub("\n", text).split("\n"):
        stripped = line.strip()
        if not stripped or stripped.startswith(("#", "|", "<", "- ", "* ")) or re.match(r"\d+\. ", stripped):
            end()
        if stripped.startswith("|"):
            found.extend(cell.strip() for cell in re.split(r"(?<!\\)\|", stripped)[1:-1] if not re.fullmatch(r"[\s:-]*", cell))
        elif stripped and not stripped.startswith("<"):
            current.append(re.sub(r"^(#+|[-*]|\d+\.) ", "", stripped))
    end()
    return found


def sentences(text):
    """Yields the sentences of the prose. A full stop, a question mark or an exclamation mark ends one; a colon and a
    semicolon do not."""
    for paragraph in paragraphs(text):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)
        yield from (part for part in re.split(r"(?<=[.!?])[\"')*]*\s+", shown) if part)


def words(sentence):
    """Returns the words of a sentence. Marks alone are not words; each word in `code` counts."""
    return [word for word in sentence.split() if re.search(r"\w", word)]


def long_sentences(text):
    return [sentence for sentence in sentences(text) if len(words(sentence)) > MAX_WORDS]


def anchors(text):
    """Returns the anchors of a page, which links to its headings end in."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("\n", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(text):
    return ["".join(groups) for groups in LINK.findall(SPAN.sub("", FENCE.sub("\n", text)))]


def spans(text):
    """Returns all `code` spans outside of blocks."""
    return [span.replace("\\|", "|") for paragraph in paragraphs(text) for span in SPAN.findall(paragraph)]


def expanded(path):
    """Expands a.{h,cc} to a.h and a.cc."""
    found = re.search(r"{([^{}]*)}", path)
    if not found:
        return [path]
    return [name for choice in found.group(1).split(",") for name in expanded(path[: found.start()] + choice + path[found.end():])]


class Tree:
    """The things that pages may name: files, keys of a configuration, commands, words of the sources."""

    def __init__(self, root, reference):
        """`reference` is the page with all keys."""
        self.root = root
        self.words, self.options, self.commands, self.lines = set(FOREIGN), set(), set(), set()
        self.names = {name for folder in ("", "docs") for name in os.listdir(os.path.join(root, folder))}
        for path in sources.files(root, TEXTS):
            self.names.update([os.path.basename(path), *re.findall(r"\w+_test(?=\.cc$)", path)])  # a test has the name of its file
            if path in NOT_ANSWERED_FOR:
                continue
            with open(os.path.join(root, path), encoding="utf-8") as file:
                text = file.read()
            self.words.update(WORD.findall(text))
            self.lines.update(line.strip() for line in text.split("\n"))
            self.options.update(re.findall(r"--[a-z][a-z-]*", text))
            self.names.update(FILE.findall(text))  # also names of files that programs write
            if path == "tools/strata":
                self.commands.update(re.findall(r"^  ([a-z-]+) ", text.partition("<<END")[2].partition("\nEND")[0], re.MULTILINE))
        self.keys = set(re.findall(r"^\| `([\w.]+)` \|", reference, re.MULTILINE))
        self.keys.update(key.rsplit(".", dots)[0] for key in list(self.keys) for dots in range(1, key.count(".") + 1))
        self.parts = {part for key in self.keys for part in key.split(".")}
        self.words.update(self.parts)

    def has_path(self, path):
        if path.startswith(("bazel-bin/", "//")):
            folder, _, name = path.removeprefix("bazel-bin/").removeprefix("//").replace(":", "/").rpartition("/")
            return self.has_target(folder, name)
        if all(glob.glob(os.path.join(self.root, re.sub(r"<\w+>", "*", each))) for each in expanded(path)):
            return True
        op, _, rest = path.partition("/")  # rms_norm/aten, as in a profile
        return os.path.isdir(os.path.join(self.root, "kernels", op)) and set(WORD.findall(rest)) <= self.words

    def has_target(self, folder, name):
        build = os.path.join(self.root, folder, "BUILD")
        if not os.path.exists(build):
            return False
        with open(build, encoding="utf-8") as file:
            return f'"{name}"' in file.read()

    def has_name(self, path, name):
        """Returns false if the file exists and does not contain the name. Another check reports missing files."""
        path = os.path.join(self.root, path)
        if not os.path.isfile(path):
            return True
        with open(path, encoding="utf-8") as file:
            return bool(re.search(rf"\b{name}\b", file.read()))

    def has_file(self, name):
        return bool(fnmatch.filter(self.names, re.sub(r"<\w+>", "*", name)))

    def unknown_key(self, span):
        """Returns the first unknown key of a span such as `run.folder`, `gather: shared` or `{a: b}`."""
        key = KEY.fullmatch(span)
        if key and key.group(1).split(".")[0] in self.keys and key.group(1) not in self.keys:
            return key.group(1)
        return next((key for key in re.findall(r"(?:^|[{,]\s*)([a-z_]+): ", span) if key not in self.parts), None)

    def complaints_about(self, span):
        """Yields the errors of one `code` span."""
        if span.startswith("tools/strata ") and span.split()[1] not in self.commands:
            yield f"there is no command {span.split()[1]}"
        for option in re.findall(r"(?:^|\s)(--[a-z][a-z-]*)", span):
            if option not in self.options:
                yield f"no program has the option {option}"
        name = span.split()[0] if span.startswith("tools/") else span
        if name in self.words or name.startswith(MADE):
            return
        if PATH.fullmatch(name):
            if not self.has_path(name):
                yield f"there is no {name}"
        elif FILE.fullmatch(name) and self.has_file(name):
            return
        elif FILE.fullmatch(name) and name.split(".")[0] not in self.keys:
            yield f"no file is called {name}"
        elif self.unknown_key(span):
            yield f"there is no key {self.unknown_key(span)}"
        elif name not in self.names and span not in self.keys:
            for word in WORD.findall(re.sub(r"'[^']*'|--[a-z-]+", "", span)):
                if word not in self.words:
                    yield f"the sources do not have the word {word} of `{span}`"

    def complaints(self, path, text):
        """Yields all errors of a page."""
        if text.count("\n") > MAX_LINES.get(path, text.count("\n")):
            yield f"{path} has {text.count(chr(10))} lines, more than {MAX_LINES[path]}"
        for link in links(text):
            yield from (f"{path}: {found}" for found in self.complaints_about_link(path, text, link))
        if path in GENERATED:
            return
        long = long_sentences(text)
        if len(long) > LONG_SENTENCES.get(path, 0):
            yield f"{path} has {len(long)} sentences of more than {MAX_WORDS} words, the first is: {long[0]}"
        for span in spans(text):
            yield from (f"{path}: {found}" for found in self.complaints_about(span))
        for name, file, link in PLACED.findall(" ".join(paragraphs(text))):
            file = file or os.path.normpath(os.path.join(os.path.dirname(path), link))
            if not self.has_name(file, name.split("::")[-1]):
                yield f"{path}: {file} has no {name}"
        for language, block in FENCE.findall(text):
            for line in block.strip().split("\n") if language in ("cpp", "python") else []:
                if line.strip() not in self.lines and not line.startswith("// kernels/"):
                    yield f"{path}: no source has the line {line.strip()}"
            for command in re.findall(r"^(?:\w+='[^']*' )?tools/strata ([a-z-]+)", block, re.MULTILINE):
                if command not in self.commands:
                    yield f"{path}: there is no command {command}"

    def complaints_about_link(self, path, text, link):
        target, _, anchor = link.partition("#")
        if re.match(r"\w+:|//", link):
            yield f"the link {link} leaves the project"
            return
        if target:
            file = os.path.join(self.root, os.path.dirname(path), target)
            if not os.path.exists(file):
                yield f"the link {link} leads nowhere"
                return
            if not anchor:
                return
            with open(file, encoding="utf-8") as other:
                text = other.read()
        if anchor not in anchors(text):
            yield f"the link {link} leads to no heading"
