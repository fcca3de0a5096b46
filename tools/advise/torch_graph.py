# SPDX-License-Identifier: MIT
"""The graph of a file that torch.export.save wrote: nodes, tensors and constants.

The file is a ZIP archive with the graph as JSON and tensors as plain bytes. Only these are read, by the standard library. Nothing
is unpickled, no compiled code of the archive is loaded, and no code of the model runs, so this does less than torch.export.load."""
import json
import math
import typing
import zipfile

from bad_input import BadInput

ARCHIVE_VERSION, SCHEMA_MAJOR = "0", 8  # of torch 2.11
MOST_JSON, MOST_CONSTANTS = 64 << 20, 256 << 20  # bytes of the graph, which takes twenty times as much memory; of all buffers that are kept
LARGEST_COUNT = 1 << 48  # elements of a tensor
MOST_LETTERS = 300  # of an error
# The number of a type in torch/_export/serde/schema.py, its short name, and its bytes.
TYPES = {1: ("uint8", 1), 2: ("int8", 1), 3: ("int16", 2), 4: ("int32", 4), 5: ("int64", 8), 6: ("fp16", 2), 7: ("fp32", 4), 8: ("fp64", 8),
         12: ("bool", 1), 13: ("bf16", 2)}  # fmt: skip
DAMAGE = (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError, StopIteration, ArithmeticError)  # errors by wrong values in a graph
# Operators whose results are whole numbers, which the graph has as numbers of the example.
OF_SIZES = ("aten.sym_", "aten._assert", "_operator.", "math.", "torch.sym_")
# What an archive of another program has, by the end of a name in it, and what it is.
FOREIGN = (("/constants.pkl", "TorchScript, which torch.jit.save wrote"), ("serialized_exported_program.json", "an exported program of torch 2.7 or older"),
           (".so", "compiled by AOTInductor, without a graph"), ("/data.pkl", "tensors or a pickled module, which torch.save wrote"))  # fmt: skip


class Reference(str):
    """The name of a value of the graph, as an argument."""


class Tensor(typing.NamedTuple):
    sizes: tuple
    dtype: str
    element_bytes: int

    @property
    def count(self):
        return math.prod(self.sizes)

    @property
    def bytes(self):
        return self.count * self.element_bytes

    @property
    def rows(self):
        return self.count // max(1, self.sizes[-1]) if self.sizes else 1

    @property
    def width(self):
        return self.sizes[-1] if self.sizes else 1


class Node(typing.NamedTuple):
    """A call. `op` is aten.linear of target torch.ops.aten.linear.default. `positional` are the names of arguments without keywords."""
    name: str
    op: str
    overload: str
    arguments: dict
    positional: tuple
    outputs: tuple

    def __hash__(self):
        return hash(self.name)

    @property
    def references(self):
        for value in self.arguments.values():
            yield from (each for each in (value if isinstance(value, list) else [value]) if isinstance(each, Reference))

    @property
    def first(self):
        """The first tensor among the arguments."""
        return list(self.references)[0]


class Graph:
    """`parameters` and `buffers` have names of the model by names of the graph. `constant_bytes(name)` has the values of a buffer."""

    def __init__(self, path):
        self.path = path
        try:
            with zipfile.ZipFile(path) as archive:
                self.read(archive)
        except DAMAGE as bad:
            raise self.damaged(bad) from None
        except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as bad:  # RuntimeError: encrypted
            raise self.refusal(f"it is no complete ZIP archive: {bad}") from None

    def damaged(self, error):
        return self.refusal(f"its graph is damaged, or of another version: {type(error).__name__} {error}")

    def refusal(self, why):
        return BadInput(f"{self.path}: expected a file of torch.export.save, and {in_a_line(why)}; write it with "
                        "torch.export.save(torch.export.export(model, inputs), \"model.pt2\") and torch 2.11")  # fmt: skip

    def read(self, archive):
        names = {name.partition("/")[2]: name for name in archive.namelist()}
        if "models/model.json" not in names:
            kind = next((kind for end, kind in FOREIGN if any(f"/{name}".endswith(end) for name in archive.namelist())), "another archive")
            raise self.refusal(f"it is {kind}")
        version = self.bytes_of(archive, names["archive_version"], 64).decode().strip()
        program = self.json_of(archive, names["models/model.json"])
        major = program["schema_version"]["major"]
        if version != ARCHIVE_VERSION or major != SCHEMA_MAJOR:
            raise self.refusal(f"its versions are {version} and {major}, expected {ARCHIVE_VERSION} and {SCHEMA_MAJOR}")
        graph = program["graph_module"]["graph"]
        self.symbols = bool(program.get("range_constraints"))
        self.tensors = {name: self.tensor(meta, graph) for name, meta in graph["tensor_values"].items()}
        nodes = [self.node(each, number, graph) for number, each in enumerate(graph["nodes"])]
        self.nodes = [node for node in nodes if node.outputs or not node.op.startswith(OF_SIZES)]
        self.outputs = [each["as_tensor"]["name"] for each in graph["outputs"] if "as_tensor" in each]
        self.parameters, self.buffers, self.inputs, self.constants = {}, {}, [], {}
        for spec in program["graph_module"]["signature"]["input_specs"]:
            self.read_input(*next(iter(spec.items())))
        self.producers = {name: node for node in self.nodes for name in node.outputs}
        self.users = {name: [] for name in self.tensors}
        self.check_order()
        for node in self.nodes:
            for name in dict.fromkeys(node.references):
                self.users[name].append(node)
        for folder in ("weights", "constants"):
            self.read_constants(archive, names, folder)

    def check_order(self):
        """A value is made once, before it is used, so that no search in the graph goes round in circles."""
        made = {*self.parameters, *self.buffers, *self.inputs}
        for node in self.nodes:
            if not made.issuperset(node.references) or not made.isdisjoint(node.outputs):
                raise ValueError(f"{node.name} uses a value that is not made before it, or makes one again")
            made.update(node.outputs)
        if not made.issuperset(self.outputs) or not made <= self.tensors.keys():
            raise ValueError("a value has no type and size, or a result is not made")

    def read_input(self, kind, spec):
        argument = spec["arg"]
        if kind == "parameter":
            self.parameters[argument["name"]] = spec["parameter_name"]
        elif kind == "buffer":
            self.buffers[argument["name"]] = spec["buffer_name"]
        elif kind == "tensor_constant":
            self.buffers[argument["name"]] = spec["tensor_constant_name"]
        elif kind == "user_input" and "as_tensor" in argument:
            self.inputs.append(argument["as_tensor"]["name"])

    def read_constants(self, archive, names, folder):
        """Keeps the bytes of buffers of a moderate size, which may be masks. What is pickled, or lies otherwise in memory, is left out."""
        listing = names.get(f"data/{folder}/model_{folder}_config.json")
        if listing is None:
            return
        graph_names = {name: key for key, name in self.buffers.items()}
        left = MOST_CONSTANTS - sum(map(len, self.constants.values()))
        for name, entry in self.json_of(archive, listing)["config"].items():
            stored = names.get(f"data/{folder}/{entry['path_name']}")
            tensor = self.tensors.get(graph_names.get(name))
            if tensor is None or stored is None or entry["use_pickle"] or not 0 < tensor.bytes <= left:
                continue
            strides = [each["as_int"] for each in entry["tensor_meta"]["strides"]]
            content = self.content_of(archive, stored, tensor.bytes)
            if strides == contiguous_strides(tensor.sizes) and len(content) == tensor.bytes:
                self.constants[graph_names[name]] = content
                left -= tensor.bytes

    def bytes_of(self, archive, name, most):
        content = self.content_of(archive, name, most)
        if len(content) > most:
            raise self.refusal(f"{name} has more than {most} bytes")
        return content

    @staticmethod
    def content_of(archive, name, most):
        """Returns what a part of the archive has, but at most one byte more than `most`, whatever it says of its size."""
        with archive.open(name) as file:
            return file.read(most + 1)

    def json_of(self, archive, name):
        return json.loads(self.bytes_of(archive, name, MOST_JSON))

    def number(self, value, graph):
        """A number that may vary has its value in the example with which the model was exported."""
        if "as_name" in value:
            value = graph["sym_int_values"][value["as_name"]]
        if "as_expr" in value:
            value = value["as_expr"].get("hint") or {}
        number = value.get("as_int")
        if type(number) is not int:
            raise ValueError("a size is no whole number, and has no example")
        return number

    def size(self, value, graph):
        size = self.number(value, graph)
        if not 0 <= size <= LARGEST_COUNT:
            raise ValueError(f"a size is {size}")
        return size

    def tensor(self, meta, graph):
        name, size = TYPES.get(meta["dtype"], (f"type {meta['dtype']}", 1))
        tensor = Tensor(tuple(self.size(each, graph) for each in meta["sizes"]), name, size)
        if tensor.count > LARGEST_COUNT:
            raise ValueError(f"a size is {tensor.count} elements")
        return tensor

    def node(self, each, number, graph):
        target = each["target"].removeprefix("torch.ops.")
        op, _, overload = target.rpartition(".") if target.count(".") > 1 else (target, "", "")
        if op.startswith("aten.") and not op.startswith("aten._"):
            op = op.rstrip("_")  # relu_ writes its result over its argument, which the graph names anew
        arguments = {given["name"] or str(place): self.value(given["arg"], graph) for place, given in enumerate(each["inputs"])}
        positional = tuple(given["name"] or str(place) for place, given in enumerate(each["inputs"]) if given.get("kind", 1) == 1)
        outputs = tuple(name for output in each["outputs"] for name in names_of(output))
        return Node(each.get("name") or (outputs[0] if outputs else f"node {number}"), op, overload, arguments, positional, outputs)

    def value(self, given, graph):
        kind, value = next(iter(given.items()))
        if kind == "as_tensor":
            return Reference(value["name"])
        if kind in ("as_tensors", "as_optional_tensors"):
            return [Reference((each.get("as_tensor") or each)["name"]) if "name" in (each.get("as_tensor") or each) else None for each in value]
        if kind == "as_sym_int":
            return self.number(value, graph)
        if kind == "as_sym_ints":
            return [self.number(each, graph) for each in value]
        if kind in ("as_int", "as_ints", "as_float", "as_floats", "as_bool", "as_bools", "as_string", "as_scalar_type"):
            return float(value) if kind == "as_float" else value  # JSON has Infinity as a text
        return None


def in_a_line(words):
    """Words that may have text of the file: not many, and without line ends."""
    return " ".join(words[:MOST_LETTERS].split())


def names_of(output):
    """The names of tensors of an output, which may be a list of them."""
    if "as_tensor" in output:
        return [output["as_tensor"]["name"]]
    return [each["name"] for each in output.get("as_tensors", ())]


def contiguous_strides(sizes):
    return [math.prod(sizes[place + 1:]) for place in range(len(sizes))]
