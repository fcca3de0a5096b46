# SPDX-License-Identifier: MIT
"""The rooms of the source tree, bottom to top, and the other rooms that each may include."""

# A room may list only rooms above it in this table, so there is no circle. "kernels/<op>" means the folder of any op, and
# "kernels/<op> proof" the files in it that only tests and tools link.
MAY_INCLUDE = {
    "base": "",
    "configs": "base",
    "kernels/runtime": "",
    "kernels/proof": "kernels/runtime",
    "kernels/baselines": "",
    "kernels/cuda": "kernels/runtime",
    "kernels/activation": "kernels/runtime kernels/cuda",
    "kernels/norms": "kernels/runtime kernels/cuda kernels/activation",
    "kernels/quantize": "kernels/runtime kernels/cuda",
    "kernels/sparsity": "kernels/runtime kernels/cuda",
    "kernels/attention/pattern": "base",
    "kernels/<op>": "kernels/attention/pattern kernels/runtime kernels/cuda kernels/activation kernels/norms kernels/quantize kernels/sparsity",
    "kernels/<op> proof": "kernels/attention/pattern kernels/runtime kernels/proof kernels/activation kernels/norms kernels/<op>",
    "kernels": "kernels/runtime kernels/proof kernels/activation kernels/<op>",
    "modules/config": "base configs kernels/attention/pattern kernels/runtime kernels/activation kernels/quantize kernels/sparsity kernels/<op>",
    "modules": "base configs kernels/runtime kernels/activation kernels/quantize kernels/sparsity kernels/<op> modules/config",
    "modules/graph": "base configs kernels/runtime kernels/activation kernels/<op> modules/config modules",
    "modules/image": "base kernels/runtime modules/config modules",
    "sharding/config": "base configs",
    "sharding/process": "base sharding/config",
    "sharding/communication": "base sharding/config sharding/process",
    "sharding/parameters": "base sharding/config sharding/communication",
    "sharding": "base configs sharding/config sharding/process sharding/communication",
    "trainer/checkpoint": "base configs",
    "trainer/data": "base",
    "trainer/data/text": "base trainer/data",
    "trainer/data/images": "base configs trainer/checkpoint trainer/data",
    "trainer/data/graphs": "base configs modules/config trainer/data",
    "trainer/config": "base configs kernels/attention/pattern modules/config sharding/config trainer/checkpoint trainer/data/text trainer/data/images trainer/data/graphs",
    "trainer/layout": "modules/config sharding/parameters trainer/config",
    "trainer/memory": "base sharding/communication",
    "trainer/levels": "base configs kernels kernels/runtime kernels/attention/pattern kernels/<op> modules/config trainer/config",
    "trainer/tasks": "base configs kernels/runtime kernels/activation kernels/<op> modules/config modules modules/graph modules/image "
                     "sharding/communication trainer/data trainer/data/text trainer/data/images trainer/data/graphs trainer/config",
    "trainer/faults": "base modules/config modules sharding/communication sharding/parameters trainer/config",
    "trainer/feed": "base sharding/process trainer/tasks",
    "trainer/ledger": "base kernels/runtime modules sharding/config sharding/parameters trainer/config trainer/tasks",
    "trainer/replicas": "base",
    "trainer/report": "base sharding/communication",
    "trainer/step": "base sharding/process sharding/parameters trainer/config trainer/memory trainer/report",
    "trainer/model": "base kernels/runtime kernels/quantize kernels/sparsity kernels/<op> modules/config modules sharding/communication sharding/parameters trainer/config "
                     "trainer/layout trainer/memory trainer/tasks trainer/report",
    "trainer/prediction": "base kernels/runtime kernels/<op> modules/config modules sharding/communication sharding/parameters trainer/config "
                          "trainer/layout trainer/memory trainer/levels trainer/tasks trainer/replicas trainer/report trainer/step trainer/model",
    "trainer/profile": "base configs kernels/runtime modules/config modules",
}
# These rooms are at the top. Each may include everything except the ones after it.
TOP = ("trainer", "tools", "tests")


def room_of(path):
    """Returns the room of a file or of an include."""
    folder = path.rpartition("/")[0]
    if folder.startswith("kernels/") and path.endswith(("_proof.cc", "_test.cc")):
        return "kernels/<op> proof"
    if folder in MAY_INCLUDE or folder in TOP:
        return folder
    if folder.startswith("kernels/"):
        return "kernels/<op> proof" if path.endswith("_proof.h") else "kernels/<op>"
    return folder.split("/")[0]


def may_include(room, other):
    if room == other:
        return True
    if room in TOP:
        return other not in TOP or TOP.index(other) < TOP.index(room)
    return other in MAY_INCLUDE.get(room, "").split()
