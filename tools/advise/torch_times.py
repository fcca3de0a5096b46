# SPDX-License-Identifier: MIT
"""Times of groups: their nodes by PyTorch as they stand in the graph, and the levels of their ops by bench kernels."""
import json
import os
import statistics
import subprocess
import tempfile
import time

import torch

import torch_calls
import torch_patterns
from bad_input import BadInput
from torch_graph import in_a_line
from torch_work import Roofline

SECONDS, FEWEST, MOST = 0.1, 7, 100  # of the samples of a median; numbers of samples
SET_BYTES, MOST_SETS = 64 << 20, 16  # inputs take turns, so that they are not in the caches, as in bench kernels
ROOFLINE_BYTES, ROOFLINE_SIDE = 1 << 27, 1024  # as in tools/bench/kernels/roofline.cc


def device():
    return "cuda" if torch.cuda.is_available() else "cpu"


def memory():
    """Bytes of this machine, or of its GPU that are free."""
    return torch.cuda.mem_get_info()[0] if device() == "cuda" else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def median_seconds(call):
    call(0)
    samples, began = [], time.perf_counter()
    while len(samples) < FEWEST or (time.perf_counter() - began < SECONDS and len(samples) < MOST):
        start = time.perf_counter()
        call(len(samples) + 1)
        if device() == "cuda":
            torch.cuda.synchronize()
        samples.append(time.perf_counter() - start)
    return statistics.median(samples)


def measured_roofline(dtype):
    source = torch.ones(ROOFLINE_BYTES, dtype=torch.uint8, device=device())
    target = torch.empty_like(source)
    left = torch.randn(ROOFLINE_SIDE, ROOFLINE_SIDE, device=device()).to(torch_calls.DTYPES[dtype])
    copy, product = median_seconds(lambda _: target.copy_(source)), median_seconds(lambda _: torch.mm(left, left))
    return Roofline(2 * ROOFLINE_BYTES / copy, 2 * ROOFLINE_SIDE**3 / product)


class Part:
    """A part of a graph that can be run on random inputs: nodes, and those between them that only change a layout."""

    def __init__(self, graph, nodes):
        self.graph = graph
        self.nodes = self.with_layouts({node.name for node in nodes})
        made = {output for node in self.nodes for output in node.outputs}
        self.inputs = list(dict.fromkeys(name for node in self.nodes for name in node.references if name not in made))
        used = [name for name in made if name in graph.outputs or any(user not in self.nodes for user in graph.users.get(name, ()))]
        self.outputs = used or list(self.nodes[-1].outputs)

    def with_layouts(self, names):
        """Returns the nodes in the order of the graph. A node of another layout belongs to them if it is between two of them."""
        chosen, pending = set(), []
        for node in self.graph.nodes:
            if node.name not in names:
                continue
            for reference in node.references:
                pending.clear()
                base = torch_patterns.Matcher(self.graph).source(reference, pending)
                producer = self.graph.producers.get(base)
                if producer is not None and producer.name in names:
                    chosen.update(each.name for each in pending)
        return [node for node in self.graph.nodes if node.name in names or node.name in chosen]

    @property
    def unknown(self):
        """Operators that are not run here."""
        return sorted({node.op for node in self.nodes if not torch_calls.can_run(node) and node.op != "aten._assert_tensor_metadata"})

    def random_input(self, name, gradients):
        tensor, constant = self.graph.tensors[name], torch_calls.constant(self.graph, name)
        if constant is not None:
            return constant.to(device())
        dtype = torch_calls.DTYPES[tensor.dtype]
        if not dtype.is_floating_point:
            return torch.randint(0, self.values_of(name), tensor.sizes, device=device()).to(dtype)
        made = (0.02 * torch.randn(tensor.sizes, device=device())).to(dtype)
        return made.requires_grad_(gradients and name not in self.graph.buffers)

    def values_of(self, name):
        """Returns how many different whole numbers an input may have: rows of a table, or classes."""
        limits = [2]
        for node in torch_patterns.Matcher(self.graph).users(name):
            if node.op == "aten.embedding":
                limits.append(self.graph.tensors[node.arguments["weight"]].sizes[0])
            elif "loss" in node.op:
                limits.append(self.graph.tensors[node.arguments["self"]].width)
        return min(limits[1:] or limits)

    def run(self, inputs):
        values = dict(inputs)
        for node in self.nodes:
            torch_calls.call(node, values, device())
        return [values[name] for name in self.outputs if isinstance(values.get(name), torch.Tensor)]

    def seconds(self, backward):
        """Returns the median seconds of a forward, and with `backward` of a backward too. Nodes that need too much memory, or have arguments
        that PyTorch refuses, raise BadInput."""
        written = [name for node in self.nodes if not torch_patterns.passes_on(node) for name in node.outputs]
        needed = sum(self.graph.tensors[name].bytes for name in (*self.inputs, *written))
        if needed > memory():
            raise BadInput(f"{self.graph.path}: its values have {needed / 2**30:.1f} GiB, more than there are here; leave out --measure")
        try:
            torch_calls.check_sizes(self.graph, self.nodes, self.inputs)
            return self.measured_seconds(backward)
        except (RuntimeError, KeyError, TypeError, ValueError, AttributeError, IndexError) as bad:
            words = in_a_line(f"{type(bad).__name__} {bad}")
            raise BadInput(f"{self.graph.path}: PyTorch cannot run its nodes ({words}); leave out --measure") from None

    def measured_seconds(self, backward):
        size = sum(self.graph.tensors[name].bytes for name in self.inputs)
        sets = [{name: self.random_input(name, backward) for name in self.inputs} for _ in range(max(1, min(MOST_SETS, SET_BYTES // max(1, size))))]
        with torch.set_grad_enabled(backward):
            written = [result for result in self.run(sets[0]) if result.requires_grad]
            gradients = [torch.ones_like(result) for result in written]

            def call(number):
                inputs = sets[number % len(sets)]
                results = [result for result in self.run(inputs) if result.requires_grad]
                if backward and results:
                    torch.autograd.backward(results, gradients)
                    for value in inputs.values():
                        value.grad = None

            return median_seconds(call)


def level_times(program, groups, backward):
    """Returns {(op, shape, dtype): {level: seconds, or the words why it was not timed}} by bench kernels, which proves each level before."""
    wanted, times = {}, {}
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}  # as many threads as the nodes have
    for group in groups:
        wanted.setdefault((group.op, group.dtype), {})[group.shape] = None
    for (op, dtype), shapes in wanted.items():
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows")
            done = subprocess.run([program, "--op", op, "--dtype", dtype, "--json", path, "--shape", *shapes], capture_output=True, text=True,
                                  env=environment, check=False)  # fmt: skip
            if done.returncode not in (0, 5):  # 5: a level does not agree, and is not timed
                words = " ".join(done.stderr.split()) or f"bench kernels ended with exit code {done.returncode}"
                times.update({(op, shape, dtype): {"aten": words} for shape in shapes})
                continue
            with open(path, encoding="utf-8") as file:
                for row in map(json.loads, file):
                    add_row(times.setdefault((op, row["shape"], dtype), {}), row, backward)
    return times


def add_row(levels, row, backward):
    level = row["level"]
    if "microseconds" not in row:
        levels[level] = row.get("not_timed", "not timed")
    elif (backward or row["direction"] == "forward") and not isinstance(levels.get(level), str):
        levels[level] = levels.get(level, 0) + 1e-6 * row["microseconds"]
