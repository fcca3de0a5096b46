# SPDX-License-Identifier: MIT
"""The sources of the checkout, for tests that read all of them."""
import os

ROOMS = ("base", "configs", "kernels", "modules", "sharding", "trainer", "tools", "tests")


def root():
    """Returns the checkout that Bazel's links in the working directory lead to."""
    return os.path.dirname(os.path.realpath("WORKSPACE"))


def files(folder, endings):
    """Yields the paths of files with these endings in the rooms below `folder`, relative to it."""
    for room in ROOMS:
        for place, folders, names in os.walk(os.path.join(folder, room)):
            folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
            for name in sorted(names):
                if name.endswith(endings):
                    yield os.path.relpath(os.path.join(place, name), folder)
