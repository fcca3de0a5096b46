# SPDX-License-Identifier: MIT
"""Times modules of PyTorch under torch.compile, beside `tools/strata bench modules`.

    python3 tools/bench/compiled/time_modules.py attention transformer_block

Level compile is the plain module of `bench modules` under torch.compile. Level sdpa is the same module with packed weights,
fused norms and scaled_dot_product_attention, under torch.compile too, and sdpa_max_autotune with the option that also tries
kernels of matrix products. Each level has a process of its own, which is ended after --limit, and all share the cache of
torch.compile. With --level it is this process. All calls are queued before the first one starts, so CUDA graphs would gain nothing. Results and gradients are
compared with the plain module in fp32 first. Prints lines of JSON with the keys of `bench modules --json`."""
import argparse
import copy
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(1, os.path.join(ROOT, "tools", "bench"))

import models  # noqa: E402
import plain  # noqa: E402
import torch  # noqa: E402
from packed_text import frequencies  # noqa: E402
from peer_decoder import Block, read_config, sizes_of  # noqa: E402
from peer_timing import Limit, check_same, forbid_fallback, quantile, rotating_sets, sampled_seconds, values_of_machine, values_or_reason  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.attention import sdpa_kernel  # noqa: E402

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
VARIANTS = ("compile", "sdpa", "sdpa_max_autotune")
LARGEST_ERROR = {torch.float32: 1e-3, torch.bfloat16: 0.05}  # of check_same
# Of torch.compile, by level. Mode max-autotune also tries the launches of each kernel one by one, which takes many minutes.
OPTIONS = {"sdpa_max_autotune": {"max_autotune_gemm": True}}
WITHOUT_GRADIENT = ("key.bias",)  # its gradient is 0 except for rounding, because softmax ignores what is added to all scores of a query


class Case:
    """A module at the sizes of tools/bench/modules/module_cases.cc: two ways to write it, and the weights of the second made from the first's."""

    def __init__(self, config, input_sizes, tables, first, second, packed):
        self.config, self.input_sizes, self.tables, self.packed = config, input_sizes, tables, packed
        self.levels = dict(zip(VARIANTS, (first, second, second)))

    def weights_of(self, level, plain):
        """The weights of a level, or their gradients, from the plain module's."""
        return plain if level == "compile" else pack_weights(plain, self.packed)


def pack_weights(weights, renamed):
    """Weights of a module that packs several: renamed has the new name of a prefix, and the prefixes that are joined."""
    found = {}
    for name, parts in renamed.items():
        for ending in (".weight", ".bias"):
            if parts[0] + ending in weights:
                found[name + ending] = torch.cat([weights[part + ending] for part in parts])
    return found


def attention_case(device):
    """Of GPT-2."""
    file, changes = ("gpt2_124m.yaml", ["micro_batch=16"]) if device == "cuda" else ("quickstart.yaml", [])
    config = read_config(os.path.join(ROOT, "configs", file), changes)
    model = argparse.Namespace(**config["model"])
    model.key_value_heads, model.head_width = model.heads, model.width // model.heads
    return Case(file, [config["micro_batch"], model.sequence, model.width], (), lambda: plain.PlainAttention(model, biases=True),
                lambda: models.Attention(model.width, model.heads, causal=True), {"qkv": ("query", "key", "value"), "output": ("output",)})


class TablesOfHalves(nn.Module):
    """A block of peer_decoder.py, whose tables of rotary positions are [1, T, 1, D / 2], with the tables of a plain block."""

    def __init__(self, sizes):
        super().__init__()
        self.block = Block(sizes)

    def forward(self, x_BTC, cosine, sine):
        return self.block(x_BTC, *(table[None, :, None, : table.size(1) // 2] for table in (cosine, sine)), None)


def block_case(device):
    """Of a Llama."""
    file, changes = ("llama_1b.yaml", ["micro_batch=2"]) if device == "cuda" else ("quickstart.yaml", [])
    sizes, config = sizes_of(os.path.join(ROOT, "configs", file), changes)
    angle = torch.outer(torch.arange(sizes.sequence).double(), frequencies(sizes)).repeat(1, 2)
    names = {"attention_norm": ("norm1",), "mlp_norm": ("norm2",), "qkv": ("attention.query", "attention.key", "attention.value"),
             "output": ("attention.output",), "gate_and_up": ("gate", "up"), "down": ("down",)}
    return Case(file, [config["micro_batch"], sizes.sequence, sizes.width], (angle.cos().float(), angle.sin().float()),
                lambda: plain.PlainBlock(sizes), lambda: TablesOfHalves(sizes), {"block." + name: parts for name, parts in names.items()})


CASES = {"attention": attention_case, "transformer_block": block_case}


def compiled(module, level):
    """Returns a copy with parameters of its own. All copies share what the first call of one compiles."""
    copied = copy.deepcopy(module)
    copied.compile(dynamic=False, fullgraph=True, options=OPTIONS.get(level))
    return copied


class Workload:
    """One case: random weights and inputs, as bench modules has them, and the results of the plain module in fp32."""

    def __init__(self, case, device, dtype):
        self.case, self.device, self.dtype = case, device, dtype
        self.tables = [table.to(device) for table in case.tables]
        with torch.device(device):
            exact = case.levels["compile"]()
            with torch.no_grad():
                for parameter in exact.parameters():
                    if parameter.dim() > 1:
                        parameter.normal_().div_(parameter.size(1) ** 0.5)
                    else:
                        parameter.add_(0.1 * torch.randn_like(parameter))
                    parameter.copy_(parameter.to(dtype))
            self.x, self.gradient = (torch.randn(case.input_sizes).to(dtype) for _ in range(2))
        self.weights = exact.state_dict()
        self.exact = self.evaluate(exact, self.x.float().requires_grad_())

    def evaluate(self, module, x):
        """Returns the output, and the gradients of x and of the parameters by name."""
        names, parameters = zip(*module.named_parameters())
        y = module(x, *self.tables)
        gradient_of_x, *others = torch.autograd.grad(y, [x, *parameters], self.gradient.to(y.dtype))
        return y.detach(), gradient_of_x, dict(zip(names, others))

    def module(self, level):
        weights = self.case.weights_of(level, self.weights)
        with torch.device(self.device):
            module = self.case.levels[level]()
        module.load_state_dict(weights)
        return module.to(self.dtype)

    def check(self, level, module):
        """Raises a ValueError if results or gradients differ from the plain module in fp32."""
        y, input_gradient, parameter_gradients = self.evaluate(module, self.x.clone().requires_grad_())
        exact_y, exact_x, exact = self.exact
        exact = self.case.weights_of(level, exact)
        pairs = {"the output": (y, exact_y), "the gradient of the input": (input_gradient, exact_x),
                 **{"the gradient of " + name: (parameter_gradients[name], wanted) for name, wanted in exact.items() if name not in WITHOUT_GRADIENT}}
        for name, (found, wanted) in pairs.items():
            check_same(name, found, wanted, LARGEST_ERROR[self.dtype])

    def sets(self, level, module, peak):
        """Returns modules, each with an input and a gradient of the output: as many as bench modules takes in turn, by the same rule."""
        size = peak + self.x.nbytes + self.gradient.nbytes + sum(parameter.nbytes for parameter in module.parameters())
        return [(compiled(module, level), self.x.clone().requires_grad_(), self.gradient.clone()) for _ in range(rotating_sets(size, self.device))]

    def times(self, level):
        """Returns the samples of forward and backward, the number of sets, and the peak of memory."""
        torch._dynamo.reset()
        module = self.module(level)
        peak = self.peak_bytes(compiled(module, level), self.x.clone().requires_grad_())
        torch._dynamo.reset()
        with torch._functorch.config.patch(donated_buffer=False):  # the backward is run again and again
            return (*self.sampled(level, self.sets(level, module, peak)), peak)

    def sampled(self, level, sets):
        """Checks the module of a set. Returns the samples of forward and backward, and the number of sets."""
        self.check(level, sets[0][0])
        kept = [None] * len(sets)

        def forward(i):
            module, x, _ = sets[i % len(sets)]
            kept[i % len(sets)] = None  # so that at most one autograd graph of a set exists
            kept[i % len(sets)] = module(x, *self.tables)

        def backward(i):
            module, x, gradient = sets[i % len(sets)]
            torch.autograd.grad(kept[i % len(sets)], [x, *module.parameters()], gradient, retain_graph=True)

        for i in range(len(sets)):  # so that no call that is timed is the first one to allocate
            forward(i)
        return {"forward": sampled_seconds(forward, self.device), "backward": sampled_seconds(backward, self.device)}, len(sets)

    def peak_bytes(self, module, x):
        """The most that tensors of a forward and backward take, beside parameters and input. The backward may overwrite what the forward
        saved, as in training. The first call compiles."""
        self.evaluate(module, x)
        if self.device == "cuda":
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            self.evaluate(module, x)
            return torch.cuda.max_memory_allocated() - before
        with torch.autograd.profiler.profile(profile_memory=True) as profile:
            self.evaluate(module, x)
        now = most = 0
        for event in sorted((event for event in profile.kineto_results.events() if event.name() == "[memory]"), key=lambda event: event.start_ns()):
            now += event.nbytes()
            most = max(most, now)
        return most


def result_fields(samples, sets, peak):
    row = {f"{direction}_milliseconds{ending}": 1e3 * quantile(seconds, share) for direction, seconds in samples.items()
           for ending, share in (("", 0.5), ("_p10", 0.1), ("_p90", 0.9))}
    return {**row, "peak_bytes": peak, "sets": sets}


def case_fields(name, case, device, short, level):
    return {**values_of_machine(device), "module": name, "config": case.config, "input": case.input_sizes, "dtype": short, "level": level}


def time_in_this_process(case, device, short, level, limit):
    with Limit(limit), sdpa_kernel(models.BACKENDS, set_priority=True):
        return result_fields(*Workload(case, device, TYPES[short]).times(level))


def time_in_own_process(name, device, short, level, limit):
    """As values_or_reason of time_in_this_process, in a process of its own: what tries kernels may hold an exception of a limit back, and goes on."""
    words = [sys.executable, "-B", os.path.abspath(__file__), name, "--device", device, "--dtype", short, "--level", level, "--limit", str(limit)]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:  # no pipe, which processes of the compiler would keep open
        with subprocess.Popen(words, stdout=file) as process:
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                process.kill()
                return {"not_timed": f"it took more than {limit:g} s"}
        file.seek(0)
        return json.loads(file.read().splitlines()[-1]) if code == 0 else {"not_timed": f"its process ended with {code}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="+", metavar="MODULE", choices=list(CASES), help=", ".join(CASES))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", choices=list(TYPES), help="otherwise fp32 on CPUs and bf16 on GPUs")
    parser.add_argument("--level", action="append", choices=VARIANTS, help="otherwise all, each in a process of its own")
    parser.add_argument("--limit", type=float, default=120, help="seconds of a module at a level, in which it is started and compiled too")
    arguments = parser.parse_args()
    short = arguments.dtype or ("bf16" if arguments.device == "cuda" else "fp32")
    forbid_fallback()
    for name in arguments.modules:
        case = CASES[name](arguments.device)
        for level in arguments.level or VARIANTS:
            torch.manual_seed(1)
            values = values_or_reason(time_in_this_process, case, arguments.device, short, level, arguments.limit) if arguments.level else \
                time_in_own_process(name, arguments.device, short, level, arguments.limit)
            print(json.dumps({**case_fields(name, case, arguments.device, short, level), **values}), flush=True)


if __name__ == "__main__":
    main()
