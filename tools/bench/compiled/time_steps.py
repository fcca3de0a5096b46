# SPDX-License-Identifier: MIT
"""Times training steps of PyTorch under torch.compile, beside `tools/strata bench step` of the same configuration.

    python3 tools/bench/compiled/time_steps.py configs/quickstart_vision.yaml
    python3 tools/bench/compiled/time_steps.py configs/gpt2_xl.yaml --ranks 4 batch=32

One rank takes a vision transformer in float32, at three levels: compile is torch.compile, reduce_overhead its mode with
CUDA graphs, and graph a whole step that was captured after torch.compile. Several ranks take a GPT-2 under FSDP2, with
compiled blocks, bfloat16 parameters and the reduce type of the configuration. The ranks are processes of this machine
that meet in a file. Prints lines of JSON with the keys of `bench step --json`."""
import argparse
import json
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(1, os.path.join(ROOT, "tools", "bench"))

import models  # noqa: E402
import torch  # noqa: E402
from peer_decoder import milliseconds, read_config  # noqa: E402
from peer_timing import DEVICE, Limit, check_same, first_line, quantile  # noqa: E402
from torch import distributed, nn  # noqa: E402
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard  # noqa: E402
from torch.nn.attention import sdpa_kernel  # noqa: E402

SAMPLES = 256  # random samples that steps choose from
LARGEST_ERROR = 1e-3  # of check_same, in float32
LEVELS = ("compile", "reduce_overhead", "graph")


def text_pool(model):
    tokens = torch.randint(model["vocabulary"], (SAMPLES, model["sequence"] + 1), device=DEVICE)
    return [tokens[:, :-1], tokens[:, 1:]]


def image_pool(model):
    images = torch.randn(SAMPLES, model.get("channels", 3), model["image_size"], model["image_size"], device=DEVICE)
    return [images, torch.randint(model["classes"], (SAMPLES,), device=DEVICE)]


class Training:
    """Steps of one rank with `batch` samples. `keeps_gradients`: the memory of gradients stays, which CUDA graphs need."""

    def __init__(self, model, forward, pool, optimizer, batch, micro_batch, keeps_gradients):
        self.model, self.forward, self.pool, self.optimizer = model, forward, pool, optimizer
        self.batch, self.micro_batch, self.keeps_gradients = batch, micro_batch, keeps_gradients
        self.inputs = [part[:batch].clone() for part in pool]
        if keeps_gradients:
            for parameter in model.parameters():
                parameter.grad = torch.zeros_like(parameter)
        self.graph = None

    def choose(self):
        samples = torch.randint(SAMPLES, (self.batch,), device=DEVICE)
        for inputs, pool in zip(self.inputs, self.pool):
            torch.index_select(pool, 0, samples, out=inputs)

    def compute(self):
        self.optimizer.zero_grad(set_to_none=not self.keeps_gradients)
        total = 0
        for micro_batch in zip(*(inputs.split(self.micro_batch) for inputs in self.inputs)):
            torch.compiler.cudagraph_mark_step_begin()
            loss = self.forward(*micro_batch) * (self.micro_batch / self.batch)
            loss.backward()
            total = total + loss.detach()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return total

    def capture(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.compute()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self.compute()

    def step(self):
        self.choose()
        if self.graph is None:
            return self.compute()
        self.graph.replay()
        return self.loss


def adamw(model, config, **options):
    of_config = config["optimizer"]
    return torch.optim.AdamW(model.parameters(), lr=float(of_config["learning_rate"]), betas=tuple(of_config.get("betas", (0.9, 0.999))),
                             weight_decay=of_config.get("weight_decay", 0.0), fused=True, **options)


def check(model, forward, inputs):
    """Compares the gradients of a compiled model with the same model that is not compiled. Raises a ValueError."""
    parameters = list(model.parameters())
    gradients = [torch.cat([part.flatten() for part in torch.autograd.grad(run(*inputs), parameters)]) for run in (forward, model)]
    check_same("the gradient of a compiled model", *gradients, LARGEST_ERROR)


def on_one_rank(config, level):
    torch._dynamo.reset()
    torch.manual_seed(1)
    with torch.device(DEVICE):
        model = models.VisionTransformer(config["model"])
    forward = torch.compile(model, dynamic=False, mode="reduce-overhead" if level == "reduce_overhead" else None)
    training = Training(model, forward, image_pool(config["model"]), adamw(model, config, capturable=DEVICE == "cuda"), config["batch"],
                        config["micro_batch"], keeps_gradients=True)
    check(model, forward, [inputs[:config["micro_batch"]] for inputs in training.inputs])
    if level == "graph":
        training.capture()
    return training


def of_rank(config, ranks):
    """Shards a GPT-2 as FSDP2 does."""
    torch.manual_seed(1)
    with torch.device(DEVICE):
        model = models.Gpt2(config["model"])
    types = {"float32": torch.float32, "bfloat16": torch.bfloat16}
    policy = MixedPrecisionPolicy(param_dtype=types[config["precision"]["compute"]], reduce_dtype=types[config["precision"]["reduce"]])
    for block in model.blocks:
        block.compile(dynamic=False)
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    return Training(model, model, text_pool(config["model"]), adamw(model, config), config["batch"] // ranks, config["micro_batch"],
                    keeps_gradients=False)


def row_of(config, training, arguments):
    times, loss = milliseconds(training.step, arguments.warm_up, arguments.steps)
    times.sort()
    return {"parameters": sum(parameter.numel() for parameter in training.model.parameters()), "batch": config["batch"],
            "micro_batch": config["micro_batch"], "steps": len(times), "milliseconds": quantile(times, 0.5),
            "milliseconds_p10": quantile(times, 0.1), "milliseconds_p90": quantile(times, 0.9),
            "peak_memory_bytes": torch.cuda.max_memory_allocated() if DEVICE == "cuda" else 0, "loss": loss}


def head_of(level, ranks):
    return {"device": torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu", "torch": torch.__version__, "level": level, "ranks": ranks}


def rank_main(rank, config, arguments, folder):
    if DEVICE == "cuda":
        torch.cuda.set_device(rank)
    distributed.init_process_group("nccl" if DEVICE == "cuda" else "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=arguments.ranks)
    with sdpa_kernel(models.BACKENDS, set_priority=True):
        row = row_of(config, of_rank(config, arguments.ranks), arguments)
    if rank == 0:
        print(json.dumps({**head_of("fsdp2", arguments.ranks), **row}), flush=True)
    distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", help="a configuration of Strata")
    parser.add_argument("overrides", nargs="*", help="a.b.c=value")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--level", action="append", choices=LEVELS, help="of one rank; otherwise all")
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--limit", type=float, default=120, help="seconds of a level of one rank, in which it is compiled too")
    arguments = parser.parse_intermixed_args()
    config = read_config(arguments.config, arguments.overrides)
    wanted = {"type": "transformer", "family": "gpt2"} if arguments.ranks > 1 else {"type": "vision_transformer", "pooling": "mean"}
    if any(config["model"].get(key) != value for key, value in wanted.items()):
        parser.error(f"{arguments.config}: with --ranks {arguments.ranks} a model of {wanted} was expected")
    if arguments.ranks > 1:
        # One machine needs no network. NVLink multicast is off, as in Strata.
        for name, value in (("NCCL_SOCKET_IFNAME", "lo"), ("GLOO_SOCKET_IFNAME", "lo"), ("NCCL_NVLS_ENABLE", "0")):
            os.environ.setdefault(name, value)
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(rank_main, (config, arguments, folder), arguments.ranks)
        return
    for level in arguments.level or LEVELS:
        row = head_of(level, 1)
        try:
            with Limit(arguments.limit), sdpa_kernel(models.BACKENDS, set_priority=True):
                row.update(row_of(config, on_one_rank(config, level), arguments))
        except Exception as error:  # one level that cannot run must not prevent the others
            row["not_timed"] = first_line(error)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
