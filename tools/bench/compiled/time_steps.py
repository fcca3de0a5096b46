# SPDX-License-Identifier: MIT
"""Times training steps of PyTorch under torch.compile, beside `tools/strata bench step` of the same configuration.

    python3 tools/bench/compiled/time_steps.py configs/quickstart_vision.yaml
    python3 tools/bench/compiled/time_steps.py configs/gpt2_124m.yaml batch=64 --level compile
    python3 tools/bench/compiled/time_steps.py configs/gpt2_xl.yaml --ranks 4 batch=32

It takes a GPT-2, a Llama or a vision transformer. On one rank, level compile is torch.compile of the whole model,
reduce_overhead its mode with CUDA graphs, graph a whole step that was captured after torch.compile, and max_autotune the mode
that also tries kernels. Weights and gradients are float32; bfloat16 is torch.autocast. Several ranks take a language model
under FSDP2 with compiled blocks, the types of the configuration and its reshard_after_forward: fsdp2, and fsdp2_max_autotune,
which tries kernels. The ranks are processes of this machine that meet in a file. Nothing is recomputed. A level is timed
after the gradients of a step were compared with the plain model's, in float32 and unsharded, and on one rank
after its update was compared with AdamW's formula in float64. Prints lines of JSON
with the keys of `bench step --json`; gradient_error is the largest error of a parameter's gradient."""
import argparse
import contextlib
import copy
import functools
import json
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(1, os.path.join(ROOT, "tools", "bench"))

import models  # noqa: E402
import torch  # noqa: E402
from peer_decoder import read_config, values_of_steps  # noqa: E402
from peer_timing import DEVICE, Limit, error_of, forbid_fallback, values_of_machine, values_or_reason  # noqa: E402
from torch import distributed, nn  # noqa: E402
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard  # noqa: E402
from torch.nn.attention import sdpa_kernel  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

SAMPLES = 256  # random samples that steps choose from
LARGEST_ERROR = {torch.float32: 5e-3, torch.bfloat16: 0.2}  # of error_of a gradient; ranks that are not summed have twice as much
UPDATE_ERROR = 1e-3  # of what a step adds to a parameter, as a share of its norm
LOSS_ERROR = 5e-3  # of error_of the loss, in both types
PARTS = 32  # of a batch, in which the plain model takes it
WARM_UP = 3  # steps before the one that is checked, so that it replays what was captured
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
MODES = {"compile": None, "reduce_overhead": "reduce-overhead", "graph": None, "max_autotune": "max-autotune"}  # level of the output: mode of torch.compile
ITEMS = {"transformer": "tokens", "vision_transformer": "images", "graph_network": "nodes"}
FSDP_MODES = {"fsdp2": None, "fsdp2_max_autotune": "max-autotune-no-cudagraphs"}


def text_pool(model):
    tokens = torch.randint(model["vocabulary"], (SAMPLES, model["sequence"] + 1), device=DEVICE)
    return [tokens[:, :-1], tokens[:, 1:]]


def image_pool(model):
    images = torch.randn(SAMPLES, model.get("channels", 3), model["image_size"], model["image_size"], device=DEVICE)
    return [images, torch.randint(model["classes"], (SAMPLES,), device=DEVICE)]


def types_of(config):
    """The types in which the model computes, and in which gradients are reduced."""
    precision = config.get("precision", {})
    return [TYPES[precision.get(key, "float32")] for key in ("compute", "reduce")]


def autocast(forward, dtype):
    """The function with its products and attention in bfloat16, if that is the type."""
    def call(*inputs):
        with torch.autocast(DEVICE, dtype):
            return forward(*inputs)

    return call if dtype == torch.bfloat16 else forward


class Training:
    """Steps of one rank with `batch` samples. `keeps_gradients`: the memory of gradients stays, which CUDA graphs need. clip: 0 is none."""

    def __init__(self, model, forward, pool, optimizer, batch, micro_batch, keeps_gradients, clip):
        self.model, self.forward, self.pool, self.optimizer = model, forward, pool, optimizer
        self.batch, self.micro_batch, self.keeps_gradients, self.clip = batch, micro_batch, keeps_gradients, clip
        self.inputs = [part[:batch].clone() for part in pool]
        self.updates = 0
        if keeps_gradients:
            for parameter in model.parameters():
                parameter.grad = torch.zeros_like(parameter)
        self.graph = None

    def choose(self):
        samples = torch.randint(SAMPLES, (self.batch,), device=DEVICE)
        for inputs, pool in zip(self.inputs, self.pool):
            torch.index_select(pool, 0, samples, out=inputs)

    def differentiate(self):
        """Leaves the gradients of the mean loss in .grad, and returns that loss."""
        self.optimizer.zero_grad(set_to_none=not self.keeps_gradients)
        total = 0
        for micro_batch in zip(*(inputs.split(self.micro_batch) for inputs in self.inputs)):
            torch.compiler.cudagraph_mark_step_begin()
            loss = self.forward(*micro_batch) * (self.micro_batch / self.batch)
            loss.backward()
            total = total + loss.detach()
        return total

    def compute(self):
        loss = self.differentiate()
        if self.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        return loss

    def capture(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                self.compute()
        self.updates = WARM_UP
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self.compute()

    def step(self):
        self.choose()
        self.updates += 1
        if self.graph is None:
            return self.compute()
        self.graph.replay()
        return self.loss


def settings_of(config):
    optimizer = config["optimizer"]
    return {"lr": float(optimizer["learning_rate"]), "betas": tuple(optimizer.get("betas", (0.9, 0.999))),
            "eps": float(optimizer.get("epsilon", 1e-8)), "weight_decay": optimizer.get("weight_decay", 0.0)}  # fmt: skip


def adamw(model, config, **options):
    return torch.optim.AdamW(model.parameters(), **settings_of(config), fused=True, **options)


@contextlib.contextmanager
def recomputing(blocks):
    """The backward computes each block again, so that the inputs of blocks are all that is kept for it."""
    for block in blocks:
        block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False, preserve_rng_state=False)
    yield
    for block in blocks:
        del block.forward


def gradients_of(model, inputs, at_once):
    """The mean loss and its gradients by plain autograd in the type of the model, with `at_once` samples in memory at a time."""
    parameters, batch = list(model.parameters()), inputs[0].size(0)
    total, sums = 0, None
    for samples in zip(*(part.split(at_once) for part in inputs)):
        with recomputing(model.blocks):
            loss = model(*samples) * (samples[0].size(0) / batch)
            parts = torch.autograd.grad(loss, parameters)
        if sums is None:
            sums = [part.contiguous() for part in parts]
        else:
            torch._foreach_add_(sums, parts)
        total = total + loss.detach()
    return total, sums


def check_loss(found, wanted):
    if not error_of(found, wanted) <= LOSS_ERROR:
        raise ValueError(f"the loss is {found.item():.6g}, and {wanted.item():.6g} by the plain model")


def check_gradients(model, found, wanted, most):
    """Returns the largest error_of the gradient of a parameter. Raises a ValueError if that is more than `most`."""
    errors = {name: error_of(gradient, exact) for (name, _), gradient, exact in zip(model.named_parameters(), found, wanted, strict=True)}
    wrong = next((name for name, error in errors.items() if not error <= most), None)  # also if it is not a number
    if wrong is not None:
        raise ValueError(f"the gradient of {wrong} differs from the plain model by {errors[wrong]:.3g} of its size; {most} is allowed")
    return max(errors.values())


def updated(parameter, gradient, averages, step, settings):
    """The parameter after update number `step` by algorithm 2 of I. Loshchilov and F. Hutter, "Decoupled weight decay regularization", ICLR
    2019, in fp64. `averages` are those of the gradients and of their squares before it."""
    parameter, gradient, mean, square = (each.double() for each in (parameter, gradient, *averages))
    first, second = settings["betas"]
    mean, square = first * mean + (1 - first) * gradient, second * square + (1 - second) * gradient**2
    change = mean / (1 - first**step) / ((square / (1 - second**step)).sqrt() + settings["eps"])
    return parameter * (1 - settings["lr"] * settings["weight_decay"]) - settings["lr"] * change


def check_update(training, before, averages, settings):
    """Compares what a step added to each parameter with the formula, except for the rounding of the sum in fp32."""
    for old, (name, new), old_averages in zip(before, training.model.named_parameters(), averages, strict=True):
        wanted = updated(old, new.grad, old_averages, training.updates, settings)
        error, size = (new - wanted).norm(), (wanted - old).norm()
        if not (size > 0 and error <= UPDATE_ERROR * size + torch.finfo(torch.float32).eps * old.norm()):
            raise ValueError(f"update {training.updates} of {name} differs from AdamW by {error / size:.3g} of its size; {UPDATE_ERROR} is allowed")


def check_step(training, settings, dtype=torch.float32):
    """Checks the loss, the clipped gradients and the update of a whole step, as it is timed. dtype: the type in which the model computes.
    Returns the largest error."""
    for _ in range(WARM_UP):
        training.step()
    plain, states = copy.deepcopy(training.model), training.optimizer.state
    averages = [[states[parameter][name].clone() for name in ("exp_avg", "exp_avg_sq")] for parameter in training.model.parameters()]
    loss = training.step()
    wanted_loss, wanted = gradients_of(plain, training.inputs, max(1, training.batch // PARTS))
    if training.clip:
        for parameter, gradient in zip(plain.parameters(), wanted):
            parameter.grad = gradient
        nn.utils.clip_grad_norm_(plain.parameters(), training.clip)
    parameters, most = list(training.model.parameters()), LARGEST_ERROR[dtype]
    check_loss(loss, wanted_loss)
    worst = check_gradients(plain, [parameter.grad for parameter in parameters], wanted, most)
    with torch.no_grad():
        check_update(training, plain.parameters(), averages, settings)
    return worst


def checked_training(config, level):
    """Returns the training at a level, which is checked, and the largest error."""
    torch._dynamo.reset()
    torch.manual_seed(1)
    section, (compute, _) = config["model"], types_of(config)
    with torch.device(DEVICE):
        model = models.class_of(section)(section)
    forward = autocast(torch.compile(model, dynamic=False, fullgraph=True, mode=MODES[level]), compute)
    pool = (image_pool if section["type"] == "vision_transformer" else text_pool)(section)
    training = Training(model, forward, pool, adamw(model, config, capturable=DEVICE == "cuda"), config["batch"], config["micro_batch"],
                        keeps_gradients=level != "compile", clip=config["optimizer"].get("gradient_clip", 1))
    if level == "graph":
        training.capture()
    return training, check_step(training, settings_of(config), compute)


def sharded_training(config, ranks, rank=0, mode=None):
    """Shards a language model as FSDP2 does. Returns its training, and the largest error of its first gradients, which are compared with the mean
    over ranks of the gradients of the whole model. Each rank has samples of its own."""
    torch.manual_seed(1)
    with torch.device(DEVICE):
        model = models.class_of(config["model"])(config["model"])
    torch.manual_seed(1 + rank)
    pool, batch = text_pool(config["model"]), config["batch"] // ranks
    wanted_loss, wanted = gradients_of(model, [part[:batch] for part in pool], at_once=1)
    for value in (wanted_loss, *wanted):
        distributed.all_reduce(value.div_(ranks))
    compute, reduce = types_of(config)
    reduce = torch.float32 if compute == torch.float32 else reduce  # as Strata does
    policy = MixedPrecisionPolicy(param_dtype=compute, reduce_dtype=reduce, cast_forward_inputs=False)  # rotary tables stay float32
    for block in model.blocks:
        block.compile(dynamic=False, fullgraph=True, mode=mode)
        fully_shard(block, mp_policy=policy, reshard_after_forward=config.get("sharding", {}).get("reshard_after_forward", True))
    fully_shard(model, mp_policy=policy)
    training = Training(model, model, pool, adamw(model, config), batch, config["micro_batch"], keeps_gradients=False,
                        clip=config["optimizer"].get("gradient_clip", 1))
    loss, most = training.differentiate(), LARGEST_ERROR[max(compute, reduce, key=LARGEST_ERROR.get)]
    distributed.all_reduce(loss.div_(ranks))
    check_loss(loss, wanted_loss)
    return training, check_gradients(model, (parameter.grad.full_tensor() for parameter in model.parameters()), wanted, most)


def result_fields(config, trained, arguments):
    training, error = trained
    torch.cuda.empty_cache()  # what the check has left
    values, model = values_of_steps(training, training.model, config, arguments.warm_up, arguments.steps), config["model"]
    items = config["batch"] * model.get("sequence", 1) / values["milliseconds"] * 1e3
    return {f"{ITEMS[model['type']]}_per_second_and_rank": items / arguments.ranks, **values, "gradient_error": error}


def rank_main(rank, config, arguments, level, folder):
    if DEVICE == "cuda":
        torch.cuda.set_device(rank)
    distributed.init_process_group("nccl" if DEVICE == "cuda" else "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=arguments.ranks)
    forbid_fallback()
    with Limit(arguments.limit), sdpa_kernel(models.BACKENDS, set_priority=True):
        row = result_fields(config, sharded_training(config, arguments.ranks, rank, FSDP_MODES[level]), arguments)
    if rank == 0:
        with open(os.path.join(folder, "row"), "w", encoding="utf-8") as file:
            json.dump(row, file)
    distributed.destroy_process_group()


def measure_ranks(config, arguments, level):
    with tempfile.TemporaryDirectory() as folder:
        try:
            torch.multiprocessing.spawn(rank_main, (config, arguments, level, folder), arguments.ranks)
        except torch.multiprocessing.ProcessRaisedException as failed:
            raise RuntimeError(str(failed).strip().splitlines()[-1]) from failed  # the rest is the trace of a rank
        with open(os.path.join(folder, "row"), encoding="utf-8") as file:
            return json.load(file)


def measure_one_rank(config, arguments, level):
    with Limit(arguments.limit), sdpa_kernel(models.BACKENDS, set_priority=True):
        return result_fields(config, checked_training(config, level), arguments)


def problem_of(config, ranks):
    """Why the model here would not do the work of the configuration; empty if it does."""
    if problem := models.problem_of(config["model"]):
        return problem
    if ranks > 1 and config["model"]["type"] != "transformer":
        return f"with --ranks {ranks} a transformer was expected"
    precision = config.get("precision", {})
    if set(precision) - {"compute", "reduce"} or set(precision.values()) - set(TYPES):
        return f"precision {precision} is not timed here; expected compute and reduce in {' or '.join(TYPES)}"
    if config["batch"] % (ranks * config["micro_batch"]):
        return f"batch is {config['batch']}, expected a multiple of {ranks} ranks times micro_batch, which is {config['micro_batch']}"
    if config["batch"] // ranks > SAMPLES:
        return f"a rank has {config['batch'] // ranks} samples, expected {SAMPLES} at most"
    return next((f"{key} is {config[key]}, and nothing is recomputed, pruned or left out here" for key in ("gradient_checkpointing", "sparsity", "layers")
                 if config.get(key, "none") not in ("none", [], {})), "")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", help="a configuration of Strata")
    parser.add_argument("overrides", nargs="*", help="a.b.c=value")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--level", action="append", choices=(*MODES, *FSDP_MODES), help="otherwise all of one rank or of several")
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--limit", type=float, help="seconds of a level, in which it is compiled too; otherwise 90, or 160 of several ranks")
    arguments = parser.parse_intermixed_args()
    config = read_config(arguments.config, arguments.overrides)
    config["model"] = models.with_sizes(config["model"])
    if problem := problem_of(config, arguments.ranks):
        parser.error(f"{arguments.config}: {problem}")
    levels, measure = (FSDP_MODES, measure_ranks) if arguments.ranks > 1 else (MODES, measure_one_rank)
    if unknown := set(arguments.level or ()) - set(levels):
        parser.error(f"--level {', '.join(sorted(unknown))} was given with --ranks {arguments.ranks}, expected {', '.join(levels)}")
    arguments.limit = arguments.limit or (160 if arguments.ranks > 1 else 90)
    # One machine needs no network. NVLink multicast is off, as in Strata.
    for name, value in (("NCCL_SOCKET_IFNAME", "lo"), ("GLOO_SOCKET_IFNAME", "lo"), ("NCCL_NVLS_ENABLE", "0")):
        os.environ.setdefault(name, value)
    forbid_fallback()
    for level in arguments.level or levels:
        print(json.dumps({**values_of_machine(), "level": level, "ranks": arguments.ranks, **values_or_reason(measure, config, arguments, level)}), flush=True)


if __name__ == "__main__":
    main()
