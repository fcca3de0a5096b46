# SPDX-License-Identifier: MIT
"""The targets of all BUILD files. They and their .bzl files are run as Python: Starlark's syntax is a part of Python's."""
import ast
import fnmatch
import os
import re

import sources

RULES = ("cc_binary", "cc_library", "cc_test", "filegroup", "genrule", "sh_binary", "sh_test", "test_suite")
LABEL = re.compile(r"//[\w/.+-]*(?::[\w/.+-]+)?")
COMPILED = ("cc_binary", "cc_library", "cc_test")


class Written(str):
    """A text of a BUILD file, which knows where it stands: path, line, and its first and last column in bytes."""


class Target:
    def __init__(self, label, kind, attributes):
        self.label, self.kind, self.attributes = label, kind, attributes
        self.package = package_of(label)

    def labels(self, attribute):
        return [absolute(text, self.package) for text in self.attributes.get(attribute) or []]


def absolute(text, package):
    """Returns a label with its package and its name: "//kernels/linear:linear" of "//kernels/linear"."""
    if text.startswith(("//", "@")):
        return str(text) if ":" in text else f"{text}:{text.rpartition('/')[2]}"
    return f"{package}:{text.removeprefix(':')}"


def package_of(label):
    return absolute(label, "").rpartition(":")[0]


def texts_in(value):
    """Yields the texts of an attribute."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for part in value.items() if isinstance(value, dict) else value:
            yield from texts_in(part)


def path_of(label):
    """Returns the path of the file with this label."""
    package, _, name = label.removeprefix("//").partition(":")
    return f"{package}/{name}" if package else name


class Anything:
    """Stands for what rules declare, like attr.label(). No implementation of a rule runs here."""

    def __getattr__(self, name):
        return lambda *_, **__: None


class Native:
    def __init__(self, package):
        self.__dict__.update({kind: package.rule(kind) for kind in RULES}, glob=package.glob, existing_rules=package.existing_rules,
                             package_name=lambda: package.name.removeprefix("//"), exports_files=package.export, package_group=ignore, package=package.open)


def ignore(*_, **__):
    """Takes the place of a function that makes no target."""


def fail(words):
    raise ValueError(words)


class Python(ast.NodeTransformer):
    """Makes Starlark Python: items() is a list. Texts of a BUILD file in an argument whose name ends in deps become Written."""

    def __init__(self, path):
        self.path, self.is_deps = path, False

    def visit_keyword(self, node):
        outside, self.is_deps = self.is_deps, self.is_deps or bool(self.path) and (node.arg or "").endswith("deps")
        node = self.generic_visit(node)
        self.is_deps = outside
        return node

    def visit_Call(self, node):
        self.generic_visit(node)
        is_items = isinstance(node.func, ast.Attribute) and node.func.attr in ("items", "keys", "values")
        return called("list", node, node) if is_items else node

    def visit_Constant(self, node):
        if not isinstance(node.value, str) or not self.is_deps:
            return node
        place = (node.value, node.lineno, node.col_offset, node.end_col_offset)
        return called("written", ast.Tuple(list(map(ast.Constant, place)), ast.Load()), node)


def called(function, argument, place):
    return ast.fix_missing_locations(ast.copy_location(ast.Call(ast.Name(function, ast.Load()), [argument], []), place))


class Package:
    """The targets of one BUILD file."""

    def __init__(self, packages, name, text, path=None):
        self.packages, self.name, self.path, self.modules = packages, name, path, {}
        self.native = Native(self)
        self.run(text, path, vars(self.native))

    def run(self, text, path, names):
        """Returns the names that a file defines."""
        scope = {"load": lambda *names, **renamed: self.load(scope, *names, **renamed), "native": self.native, "attr": Anything(), "CcInfo": None,
                 "rule": self.own_rule, "provider": ignore, "aspect": ignore, "repository_rule": ignore, "fail": fail, "written": self.written, **names}
        exec(compile(Python(path).visit(ast.parse(text)), path or "bzl", "exec"), scope)
        return scope

    def written(self, place):
        text = Written(place[0])
        text.path, text.line, text.start, text.end = self.path, *place[1:]
        return text

    def load(self, scope, file, *names, **renamed):
        if file.startswith("@"):
            scope.update({name: name.lower() for name in names})  # paths and versions of the wheels
            return
        if file not in self.modules:
            text = self.packages.read(path_of(absolute(file, self.name)))
            self.packages.used_by_rules |= {package_of(label) for label in LABEL.findall(text)}
            self.modules[file] = self.run(text, None, {})
        scope.update({new: self.modules[file][old] for new, old in [*zip(names, names), *renamed.items()]})

    def rule(self, kind):
        def make(name, **attributes):
            label = f"{self.name}:{name}"
            if label in self.packages.targets:
                fail(f"{label} stands twice")
            self.packages.targets[label] = Target(label, kind, attributes)
        return make

    def open(self, **_):
        """What follows package(default_visibility = ...)."""
        self.packages.opened.add(self.name)

    def export(self, files, visibility=()):
        if visibility:
            self.packages.visible |= {f"{self.name}:{file}" for file in files}

    def own_rule(self, **_):
        return self.rule("own")

    def glob(self, patterns, exclude=(), **_):
        return [name for name in self.packages.files(self.name) if any_matches(name, patterns) and not any_matches(name, exclude)]

    def existing_rules(self):
        return {target.label.partition(":")[2]: {"srcs": [":" + text.removeprefix(":") for text in target.attributes.get("srcs") or []]}
                for target in self.packages.targets.values() if target.package == self.name}


def any_matches(name, patterns):
    return any(name.count("/") == pattern.count("/") and fnmatch.fnmatchcase(name, pattern) or
               "**" in pattern and fnmatch.fnmatchcase(name, pattern.replace("/**/", "/*")) for pattern in patterns)


class Packages:
    """The targets of a tree, by label. `texts` are all its files by path; only BUILD and .bzl files need their texts."""

    def __init__(self, texts):
        self.texts, self.targets, self.below = texts, {}, {}
        self.opened, self.used_by_rules = set(), set()  # packages with a default visibility, and those that .bzl files name
        self.visible = set()  # labels with a visibility of their own
        self.folders = {os.path.dirname(path) for path in texts if os.path.basename(path) == "BUILD"}
        for path in sorted(texts):
            if os.path.basename(path) == "BUILD":
                Package(self, "//" + os.path.dirname(path), self.read(path), path)

    def read(self, path):
        text = self.texts[path]
        return text() if callable(text) else text

    def files(self, package):
        """Returns the names of the files of a package, without the files of packages below it."""
        folder = package.removeprefix("//")
        found = []
        for path in self.texts:
            if path.startswith(folder + "/" if folder else ""):
                above = os.path.dirname(path)
                while above not in self.folders and above:
                    above = os.path.dirname(above)
                if above == folder:
                    found.append(path.removeprefix(folder + "/" if folder else ""))
        return sorted(found)

    def add_external(self, name, text):
        Package(self, f"@{name}//", text)

    def closure(self, label):
        """Returns the labels of all that a target links, itself too."""
        if label not in self.below:
            target = self.targets.get(label)
            self.below[label] = {label}.union(*map(self.closure, target.labels("deps"))) if target else {label}
        return self.below[label]

    def paths(self, label):
        """Returns the paths of the files of a label among srcs or hdrs: a file, or what a target makes."""
        target = self.targets.get(label)
        if not target:
            return {path_of(label)}
        if target.kind == "filegroup":
            return set().union(*map(self.paths, target.labels("srcs")))
        if target.kind == "genrule":
            return {path_of(out) for out in target.labels("outs")}
        return {path_of(label) + ".h"}  # gpu_table

    def files_of(self, target, *attributes):
        return set().union(*(self.paths(label) for attribute in attributes for label in target.labels(attribute)))

    def headers(self, label):
        """Returns the paths of the headers that a library gives to those that depend on it."""
        target = self.targets.get(label)
        return self.files_of(target, "hdrs") if target else set()

    def implied(self):
        """Returns the labels of deps that another label of their list brings, of those that BUILD files write; each as a Written."""
        votes = {}
        for target in self.targets.values():
            labels = target.labels("deps")
            for text, label in zip(target.attributes.get("deps") or [], labels):
                if isinstance(text, Written):
                    brought = any(label in self.closure(other) for other in labels if other != label)
                    votes.setdefault((text.path, text.line, text.start), [text, []])[1].append(brought)
        return [text for text, brought in votes.values() if all(brought)]

    def opened_in_vain(self):
        """Returns the packages with a default visibility that no other package uses."""
        needed = set(self.used_by_rules)
        for target in self.targets.values():
            texts = texts_in({name: value for name, value in target.attributes.items() if name != "visibility"})
            for label in [absolute(label, target.package) for text in texts for label in LABEL.findall(text)]:
                other = self.targets.get(label)
                if package_of(label) != target.package and label not in self.visible and not (other and "visibility" in other.attributes):
                    needed.add(package_of(label))
        return sorted(package for package in self.opened - needed if package.startswith("//"))


def checkout_packages():
    """Returns the packages of the checkout."""
    root = sources.root()
    packages = Packages({path: lambda path=path: content(os.path.join(root, path)) for path in ["BUILD", *sources.files(root, "")]})
    packages.add_external("debian", packages.read("tools/bazel/debian.BUILD"))
    wheels = re.search(r'_WHEELS_BUILD = """(.*?)"""', packages.read("tools/bazel/repositories.bzl"), re.DOTALL)
    packages.add_external("wheels", wheels[1])
    return packages


def content(path):
    with open(path, encoding="utf-8") as file:
        return file.read()
