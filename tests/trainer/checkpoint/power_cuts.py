# SPDX-License-Identifier: MIT
"""All states in which a power cut may leave a folder, computed from the system calls of one trace.

Nothing is durable before a sync returns, and then only what was called before the sync began:
- fsync and fdatasync of a file keep its bytes, and not its name. fsync of a folder keeps its entries, and not their bytes.
- Of the changes of a folder that are not synced, any subset is on the disk. Each is atomic, a rename too.
- Bytes that are not synced are all there, half of them, or none, or zeros in one block or in all.

A tree is bytes for a file, a text for a symbolic link, and a tuple of pairs (name, tree) for a folder."""

import dataclasses
import itertools
import os
import re

# All calls that change a folder or sync it. Those that the model does not know are refused if they succeed below the root.
CALLS = ("openat open creat write pwrite64 writev pwritev fdatasync fsync sync syncfs truncate ftruncate fallocate rename renameat renameat2 "
         "mkdir mkdirat link linkat symlink symlinkat unlink unlinkat rmdir").split()
# The bytes of all texts are written in hexadecimal digits, and none are left out.
STRACE_OPTIONS = ["-y", "-xx", "-s", str(1 << 24)]

BLOCK = 512  # the smallest unit that a disk writes


@dataclasses.dataclass(frozen=True)
class Operation:
    call: str  # create, write, sync, mkdir, symlink, rename, remove or nothing
    path: str = ""  # relative to the root
    data: object = None  # bytes of a write, text of a symlink, new path of a rename, number of operations before a sync


def decoded(text):
    return bytes.fromhex(text.replace("\\x", ""))


def parse(trace, root, earlier=()):
    """Returns the operations `earlier` and those below `root` that succeeded, in the order in which they returned."""
    operations, begun = [*earlier], {}
    with open(trace, encoding="ascii") as file:
        for line in file:
            thread, _, text = line.rstrip("\n").partition(" ")
            text = text.lstrip()
            if text.endswith("<unfinished ...>"):
                begun[thread] = (text.removesuffix("<unfinished ...>"), len(operations))
                continue
            start, before = "", len(operations)
            if resumed := re.match(r"<\.\.\. \w+ resumed>", text):
                start, before = begun.pop(thread)
                text = text[resumed.end():]
            call = re.fullmatch(r"(\w+)\((.*)\) += (-?\d+)(.*)", start + text)
            if call and int(call[3]) >= 0:
                operations += operations_of(call[1], call[2], int(call[3]), before, root)
    return operations


def operations_of(call, arguments, result, before, root):
    """Returns a list of the operation of this call, or an empty one if it changes nothing below `root`."""
    texts = [decoded(text) for text in re.findall(r'"((?:\\x[0-9a-f]{2})*)"', arguments)]
    opened = re.match(r"\w+<([^>]*)>", arguments)
    folder = os.fsdecode(decoded(opened[1])) if opened and opened[1].startswith("\\x") else ""

    def below(path):
        path = os.path.normpath(os.path.join(folder, path))
        return os.path.relpath(path, root) if path == root or path.startswith(root + "/") else None

    paths = [below(os.fsdecode(text)) for text in texts] if call != "write" else []
    if call == "openat" and "O_CREAT" not in arguments and "O_TRUNC" not in arguments:
        return []
    if call in ("write", "fsync", "fdatasync"):
        if not folder or below(folder) is None:
            return []
        return [Operation("write", below(folder), texts[0][:result]) if call == "write" else Operation("sync", below(folder), before)]
    if call == "openat" and "O_EXCL" in arguments and "O_TRUNC" not in arguments:
        operation = Operation("create", paths[0])
    elif call == "mkdir":
        operation = Operation("mkdir", paths[0])
    elif call == "symlink":
        operation = Operation("symlink", paths[1], os.fsdecode(texts[0]))
    elif call == "rename":
        operation = Operation("rename", *paths)
    elif call in ("unlink", "unlinkat", "rmdir"):
        operation = Operation("remove", paths[0])
    elif all(path is None for path in [*paths, below(folder) if folder else None]):
        return []
    else:
        raise ValueError(f"this model does not know {call}({arguments[:200]})")
    return [] if operation.path is None else [operation]


class File:
    """A file, the bytes of which are durable up to some point."""

    def __init__(self, durable=b""):
        self.durable, self.pending = durable, []

    def sync(self, before):
        self.durable += b"".join(data for index, data in self.pending if index < before)
        self.pending = [change for change in self.pending if change[0] >= before]

    def trees(self):
        unsynced = b"".join(data for _, data in self.pending)
        blocks = range(0, len(unsynced), BLOCK)
        zeroed = [unsynced[:begin] + bytes(len(unsynced[begin:begin + BLOCK])) + unsynced[begin + BLOCK:] for begin in blocks]
        ends = [b"", unsynced[:len(unsynced) // 2], bytes(len(unsynced)), *zeroed, unsynced]
        return list(dict.fromkeys(self.durable + end for end in ends))


class Link:
    def __init__(self, target):
        self.target = target

    def trees(self):
        return [self.target]


class Folder:
    """A folder: its entries for processes, its durable entries, and the changes between them. A change is the name that
    goes, the name that comes, and what the latter names."""

    def __init__(self, entries=None):
        self.entries, self.durable, self.pending = dict(entries or {}), dict(entries or {}), []

    def change(self, index, goes, comes=None, inode=None):
        self.pending.append((index, (goes, comes, inode)))
        self.carry_out(self.entries, (goes, comes, inode))

    @staticmethod
    def carry_out(entries, change):
        goes, comes, inode = change
        entries.pop(goes, None)
        if comes is not None:
            entries[comes] = inode

    def sync(self, before):
        for index, change in self.pending:
            if index < before:
                self.carry_out(self.durable, change)
        self.pending = [change for change in self.pending if change[0] >= before]

    def trees(self):
        found = {}
        for kept in itertools.product((False, True), repeat=len(self.pending)):
            entries = dict(self.durable)
            for _, change in itertools.compress(self.pending, kept):
                self.carry_out(entries, change)
            names = sorted(entries)
            found.update(dict.fromkeys(tuple(zip(names, below)) for below in itertools.product(*(entries[name].trees() for name in names))))
        return list(found)


def inode_of(tree):
    if isinstance(tree, bytes):
        return File(tree)
    return Link(tree) if isinstance(tree, str) else Folder({name: inode_of(below) for name, below in tree})


class Disk:
    """A disk that holds `tree`, and then carries out operations without a sync of its own."""

    def __init__(self, tree):
        self.root = inode_of(tree)

    def at(self, path):
        inode = self.root
        for name in path.split("/") if path != "." else []:
            inode = inode.entries[name]
        return inode

    def carry_out(self, index, operation):
        if operation.call == "nothing":
            return
        if operation.call == "sync":
            self.at(operation.path).sync(operation.data)
            return
        if operation.call == "write":
            self.at(operation.path).pending.append((index, operation.data))
            return
        folder, name = os.path.split(operation.path)
        folder = self.at(folder or ".")
        if operation.call == "rename":
            if os.path.dirname(operation.data) != os.path.dirname(operation.path):
                raise ValueError("this model does not know renames between folders")
            folder.change(index, name, os.path.basename(operation.data), folder.entries[name])
        elif operation.call == "remove":
            folder.change(index, name)
        else:
            made = {"create": File, "mkdir": Folder, "symlink": lambda: Link(operation.data)}[operation.call]()
            folder.change(index, None, name, made)


def states(tree, operations, done):
    """Returns the trees that a disk with `tree` may show after a power cut when the first `done` operations have
    returned."""
    disk = Disk(tree)
    for index, operation in enumerate(operations[:done]):
        disk.carry_out(index, operation)
    return disk.root.trees()


def read_tree(path):
    if os.path.islink(path):
        return os.readlink(path)
    if os.path.isdir(path):
        return tuple((name, read_tree(os.path.join(path, name))) for name in sorted(os.listdir(path)))
    with open(path, "rb") as file:
        return file.read()


def write_tree(path, tree):
    if isinstance(tree, str):
        os.symlink(tree, path)
    elif isinstance(tree, bytes):
        with open(path, "wb") as file:
            file.write(tree)
    else:
        os.mkdir(path)
        for name, below in tree:
            write_tree(os.path.join(path, name), below)
