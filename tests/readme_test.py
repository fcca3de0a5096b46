# SPDX-License-Identifier: MIT
"""Checks that the pages agree with the programs and the sources."""

import glob
import os
import re
import shlex
import shutil
import subprocess
import unittest

import yaml

import pages
import rooms
import sources

ROOT = sources.root()
CHECK = os.path.abspath("trainer/check")
ARGUMENTS = re.compile(r"^tools/strata (?:train|validate|profile|plan|packages|bench step) (configs/.*)$", re.MULTILINE)
OF_BENCH = re.compile(r" --document-tokens \d+")  # an option that no configuration has
MAKE_REFERENCE = "bazel build //trainer:check && bazel-bin/trainer/check --reference > docs/configuration.md"
MAKE_LEVELS = "tools/strata levels --page > docs/levels.md"


def errors_of(*arguments):
    return subprocess.run([CHECK, *arguments], capture_output=True, text=True, cwd=ROOT, check=False).stderr


def reference():
    return subprocess.run([CHECK, "--reference"], capture_output=True, text=True, check=True).stdout


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def commands_of(texts):
    """Returns the arguments of each command with a configuration in blocks of code, except those with placeholders."""
    lines = [OF_BENCH.sub("", line) for text in texts for block in pages.blocks(text) for line in ARGUMENTS.findall(block)]
    found = [shlex.split(line, comments=True) for line in lines]
    return [words for words in found if words[0] != "configs/mine.yaml" and "--hosts" not in words]


def lines_of(key, texts):
    """Returns `key={...}` for each line `key: {...}` in blocks of code."""
    pattern = re.compile(rf"^{key}: {{(.*?)}}(?:  .*)?$", re.MULTILINE)
    return [f"{key}={{{line}}}" for text in texts for block in pages.blocks(text) for line in pattern.findall(block)]


def table_of_rooms(text):
    """Returns {room: rooms that it may include} as a page lists them."""
    rows = re.findall(r"^\| `([\w/<> ]+)` \| [^|]* \| ([^|]*) \|$", text.partition("| room |")[2].partition("\n\n")[0], re.MULTILINE)
    return {room: " ".join(re.findall(r"`([^`]+)`", known)) if known.startswith("`") else known for room, known in rows}


def rooms_of_picture(text):
    """Returns the rooms that a picture names: its boxes, and the parts in the list of each."""
    found, box = set(), ""
    for words in re.findall(r"<text[^>]*>(.*?)</text>", text):
        if words.endswith("/"):
            box = words[:-1]
            found.add(box)
        elif " · " in words:
            parts = [f"{box}/{name}" for part in words.split(" · ") for name in pages.expanded(part.replace(", ", ","))]
            found.update(parts, (part.rpartition("/")[0] for part in parts))
    return found


class PagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.texts = {path: read(path) for path in pages.paths(ROOT)}
        cls.tree = pages.Tree(ROOT, reference())

    def test_the_pages_are_there(self):
        self.assertLessEqual({"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs/architecture.md"}, set(self.texts))
        self.assertGreater(len(self.texts), 15)

    def test_every_page(self):
        for path, text in self.texts.items():
            with self.subTest(path):
                self.assertEqual(list(self.tree.complaints(path, text)), [])

    def test_every_page_is_linked_from_the_readme(self):
        seen, waiting = set(), ["README.md"]
        while waiting:
            page = waiting.pop()
            if page in seen or page not in self.texts:
                continue
            seen.add(page)
            folder = os.path.dirname(page)
            waiting += [os.path.normpath(os.path.join(folder, link.partition("#")[0])) for link in pages.links(self.texts[page])]
        self.assertEqual(set(self.texts) - seen, set())

    def test_levels(self):
        page = subprocess.run(["tools/levels", "--page"], capture_output=True, text=True, check=True).stdout
        self.assertTrue(self.texts["docs/levels.md"] == page, f"docs/levels.md is stale; make it anew with: {MAKE_LEVELS}")
        self.assertIn(MAKE_LEVELS, self.texts["CONTRIBUTING.md"])

    def test_reference(self):
        self.assertTrue(self.texts["docs/configuration.md"] == reference(), f"docs/configuration.md is stale; make it anew with: {MAKE_REFERENCE}")
        self.assertIn(MAKE_REFERENCE, self.texts["CONTRIBUTING.md"])

    def test_quick_start(self):
        self.assertIn("\n".join(read("configs/quickstart.yaml").splitlines()[1:]), self.texts["README.md"])

    def test_commands_of_a_newcomer(self):
        commands = [line.partition("#")[0].strip() for block in pages.blocks(self.texts["README.md"]) for line in block.splitlines()]
        self.assertIn("tools/strata train configs/quickstart.yaml", commands)
        self.assertIn("tools/strata test", commands)
        row = next(line for line in self.texts["README.md"].splitlines() if line.startswith("| is this faster than what I have"))
        for command in ("bench levels", "bench modules", "compare", "explain", "advise"):
            self.assertRegex(row, rf"`(tools/strata )?{command}[ `]")

    def test_configurations_of_commands(self):
        commands = commands_of(self.texts.values())
        self.assertGreater(len(commands), 20)
        for words in commands:
            self.assertEqual(errors_of(*words), "", words)

    def test_sections(self):
        """Each line `model: {...}` and `data: {...}` fits a shipped configuration, alone or with another such line."""
        lines = {key: lines_of(key, self.texts.values()) for key in ("model", "data")}
        configs = glob.glob(ROOT + "/configs/quickstart*.yaml")
        for key, other in (("model", "data"), ("data", "model")):
            self.assertGreater(len(lines[key]), 4)
            for line in lines[key]:
                errors = [errors_of(config, line, *more) for config in configs for more in [[], *([line] for line in lines[other])]]
                self.assertIn("", errors, line)

    def test_precision_and_kernels(self):
        """Each such section fits a model with enough layers and a head of its own."""
        blocks = [block for text in self.texts.values() for block in pages.blocks(text)]
        for key in ("precision", "kernels"):
            sections = [section[key] for block in blocks if block.startswith(key + ":") for section in [yaml.safe_load(block)]]
            self.assertGreater(len(sections), 0)
            for section in sections:
                line = yaml.safe_dump(section, default_flow_style=True, width=10000).strip()
                self.assertEqual(errors_of("configs/llama_8b.yaml", f"{key}={line}"), "")

    def test_rooms(self):
        expected = {room: known or "none" for room, known in rooms.MAY_INCLUDE.items()} | {room: "all above" for room in rooms.TOP}
        found = table_of_rooms(self.texts["docs/architecture.md"])
        for room, known in expected.items():
            self.assertEqual(found.get(room), known, f"the row of {room} in docs/architecture.md")
        self.assertEqual(list(found), list(expected), "in the order of tests/rooms.py")

    def test_pictures_of_the_rooms(self):
        expected = {room for room in [*rooms.MAY_INCLUDE, *rooms.TOP] if not room.startswith("kernels/")}
        for path in ("docs/rooms-light.svg", "docs/rooms-dark.svg"):
            self.assertEqual(rooms_of_picture(read(path)), expected, path)

    def test_issue_form(self):
        for path in glob.glob(ROOT + "/.github/ISSUE_TEMPLATE/*.yaml"):
            with open(path, encoding="utf-8") as file:
                form = yaml.safe_load(file)
            self.assertLessEqual({"name", "description", "body"}, set(form))
            for part in form["body"]:
                self.assertIn(part["type"], ("markdown", "textarea", "input", "checkboxes", "dropdown"))


class ComplaintsTest(unittest.TestCase):
    """Each check can fail: there is a wrong page for each, and a right one."""

    @classmethod
    def setUpClass(cls):
        cls.folder = os.path.join(os.environ["TEST_TMPDIR"], "pages")
        shutil.rmtree(cls.folder, ignore_errors=True)
        files = {"README.md": "# Strata\n\n## Two commands\n", "docs/a.md": "# A\n\n## One thing\n", "configs/run.yaml": "steps: 1\n",
                 "kernels/swiglu/swiglu.h": "void run_step();\n", "kernels/swiglu/swiglu.py": "", "trainer/BUILD": 'name = "train"\n',
                 "tools/strata": "help() {\n  cat <<END\n  train CONFIG [--ranks N]\n  test [--all]\nEND\n}\n"}
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(cls.folder, path)), exist_ok=True)
            with open(os.path.join(cls.folder, path), "w", encoding="utf-8") as file:
                file.write(text)
        cls.tree = pages.Tree(cls.folder, "| `steps` |\n| `run.folder` |\n| `kernels.layers.N.only` |\n")

    def complaints(self, text, path="docs/b.md"):
        return list(self.tree.complaints(path, text))

    def assert_one(self, text, words, path="docs/b.md"):
        found = self.complaints(text, path)
        self.assertEqual(len(found), 1, found)
        self.assertIn(words, found[0])

    def test_right(self):
        self.assertEqual(self.complaints(
            "# B\n\nSee [one](a.md#one-thing), [two](../README.md) and [three](#b).\n\n`configs/run.yaml`, `swiglu.h`, `kernels/swiglu/swiglu.{h,py}`,\n"
            "`kernels/<op>/<op>.py`, `run.folder`, `run.folder=x`, `{only: 0-3}`, `kernels.layers`, `run_step`, `tools/strata train`, `--ranks`,\n"
            "`bazel-bin/trainer/train`, `//trainer:train`, `runs/mine/anything.xyz`.\n\n```bash\ntools/strata test\n```\n"), [])

    def test_links(self):
        self.assert_one("[there](c.md)\n", "leads nowhere")
        self.assert_one("[there](a.md#two-things)\n", "leads to no heading")
        self.assert_one("[there](#a)\n\n# B\n", "leads to no heading")
        self.assert_one("<img src=\"picture.svg\">\n", "leads nowhere")
        self.assert_one("[there](https" + "://somewhere)\n", "leaves the project")

    def test_files(self):
        self.assert_one("`configs/walk.yaml`\n", "there is no configs/walk.yaml")
        self.assert_one("`kernels/swiglu/swiglu.{h,cc}`\n", "there is no kernels/swiglu")
        self.assert_one("`kernels/<op>/<op>.cu`\n", "there is no kernels/<op>")
        self.assert_one("`configs/runs`\n", "there is no configs/runs")
        self.assert_one("`rotary.h`\n", "no file is called rotary.h")
        self.assert_one("`bazel-bin/trainer/trai`\n", "there is no bazel-bin")

    def test_keys(self):
        self.assert_one("`run.foldr`\n", "there is no key run.foldr")
        self.assert_one("`run.foldr=x`\n", "there is no key run.foldr")
        self.assert_one("`foldr: x`\n", "there is no key foldr")
        self.assert_one("`{onyl: 0-3}`\n", "there is no key onyl")

    def test_commands(self):
        self.assert_one("`tools/strata walk`\n", "there is no command walk")
        self.assert_one("```bash\ntools/strata walk\n```\n", "there is no command walk")
        self.assert_one("`tools/strata train --rank 2`\n", "no program has the option --rank")

    def test_words(self):
        self.assert_one("`run_stop()`\n", "do not have the word run_stop")
        self.assertEqual(self.complaints("`run_step` in `kernels/swiglu/swiglu.h`\n"), [])
        self.assert_one("`run_step` in `configs/run.yaml`\n", "configs/run.yaml has no run_step")
        self.assert_one("`run_step` in [`configs/run.yaml`](../configs/run.yaml)\n", "configs/run.yaml has no run_step")
        self.assert_one("`run_step` in [run.yaml](../configs/run.yaml)\n", "configs/run.yaml has no run_step")
        self.assertEqual(self.complaints("`run_step` in [swiglu.h](../kernels/swiglu/swiglu.h)\n"), [])

    def test_examples(self):
        self.assertEqual(self.complaints("```cpp\nvoid run_step();\n```\n"), [])
        self.assert_one("```cpp\nvoid run_stop();\n```\n", "no source has the line void run_stop();")

    def test_sentences(self):
        self.assertEqual(self.complaints("a " * 35 + "\n"), [])
        self.assert_one("a " * 36 + "\n", "more than 35 words")
        self.assert_one("- " + "a " * 20 + "\n  " + "a " * 16 + "\n", "more than 35 words")
        self.assert_one("| cell | " + "a " * 36 + "|\n", "more than 35 words")
        self.assertEqual(self.complaints("a " * 20 + "end. " + "a " * 20 + "\n"), [])
        self.assertEqual(self.complaints("- " + "a " * 20 + "\n- " + "a " * 20 + "\n"), [])
        self.assertEqual(self.complaints(("a " * 36 + "\n\n") * 3, "README.md"), [])
        self.assert_one(("a " * 36 + "\n\n") * 4, "4 sentences of more than 35", "README.md")

    def test_lines(self):
        self.assertEqual(self.complaints("a\n\n" * 90, "README.md"), [])
        self.assert_one("a\n\n" * 91, "182 lines, more than 180", "README.md")

    def test_blocks(self):
        text = "```bash\ntools/strata train configs/a.yaml --ranks 2  # so\ntools/strata train configs/mine.yaml\n```\n"
        self.assertEqual(commands_of([text, "tools/strata train configs/not.yaml\n"]), [["configs/a.yaml", "--ranks", "2"]])
        self.assertEqual(lines_of("model", ["```yaml\nmodel: {a: b}   # c\n```\nmodel: {d: e}\n"]), ["model={a: b}"])

    def test_table_of_rooms(self):
        text = "| room | what | may |\n| --- | --- | --- |\n| `base` | a | none |\n| `kernels/<op>` | b | `base`, `kernels` |\n\n| `not` | a | none |\n"
        self.assertEqual(table_of_rooms(text), {"base": "none", "kernels/<op>": "base kernels"})

    def test_rooms_of_picture(self):
        text = "<text x=\"1\">a/</text>\n<text>b is here</text>\n<text>c · d/{e, f}</text>\n<text>g/</text>\n"
        self.assertEqual(rooms_of_picture(text), {"a", "a/c", "a/d", "a/d/e", "a/d/f", "g"})


if __name__ == "__main__":
    unittest.main()
