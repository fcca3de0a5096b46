# SPDX-License-Identifier: MIT
"""Times training steps of a Llama or Qwen3 in plain PyTorch, beside `tools/strata bench step` of the same configuration.

    python3 tools/bench/peer_decoder.py configs/qwen3_600m.yaml batch=8 micro_batch=8 data.documents=separate --document-tokens 1024

It trains as torchtitan does on one GPU: each block is compiled, head and loss run in 8 chunks of tokens, AdamW is fused,
and documents are kept apart by FlexAttention, with a new block mask for each micro-batch. Parameters, activations and
gradients are bfloat16, master weights and moments fp32, as in Strata. Without documents attention is SDPA.
With --fp8 torchao multiplies the linear layers of blocks in FP8, by one scale for a tensor or one for each row.
A block is checked first. Prints a line of JSON with the keys of `bench step --json`. Without a GPU nothing is compiled.

B batch, T positions, C width, H query heads, K heads of keys and values, D head width."""
import argparse
import json
import time
import types

import torch
import yaml
from packed_text import IGNORED, WINDOWS, Text
from peer_fp8 import RECIPES, multiply_in_fp8
from peer_timing import DEVICE, check_same, quantile, values_of_machine
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, create_mask, flex_attention

SIZES = ("type", "family", "layers", "width", "heads", "key_value_heads", "head_width", "query_key_norm", "feed_forward", "sequence", "vocabulary",
         "tied", "norm_epsilon", "rotary_base", "rotary_scaling")
CHUNKS = 8  # of head and loss
LARGEST_ERROR = {False: 0.03, True: 0.1}  # of check_same, without FP8 and with it: a rounding before FP8 may move a value to the next code


def compiled(function, **options):
    return torch.compile(function, dynamic=False, **options) if DEVICE == "cuda" else function


def attention(q, k, v, mask):
    """[B, T, heads, D] -> [B, T, H * D]. mask: FlexAttention's lists, bool [B, 1, T, T], or None for causal."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    if isinstance(mask, BlockMask):
        y = flex_attention(q, k, v, block_mask=mask, enable_gqa=True)
    else:
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=True)
    return y.transpose(1, 2).flatten(2)


def rotated(x, cosine, sine):
    first, second = x.float().chunk(2, -1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1).to(x.dtype)


class Block(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        norm = lambda width: nn.RMSNorm(width, eps=sizes.norm_epsilon)
        linear = lambda inputs, outputs: nn.Linear(inputs, outputs, bias=False)
        self.heads = [sizes.heads, sizes.key_value_heads, sizes.key_value_heads]
        self.attention_norm, self.mlp_norm = norm(sizes.width), norm(sizes.width)
        self.query_norm, self.key_norm = (norm(sizes.head_width) if sizes.query_key_norm == "head" else nn.Identity() for _ in range(2))
        self.qkv = linear(sizes.width, sum(self.heads) * sizes.head_width)
        self.output = linear(sizes.heads * sizes.head_width, sizes.width)
        self.gate_and_up = linear(sizes.width, 2 * sizes.feed_forward)
        self.down = linear(sizes.feed_forward, sizes.width)

    def forward(self, x_BTC, cosine, sine, mask):
        q, k, v = self.qkv(self.attention_norm(x_BTC)).unflatten(2, (sum(self.heads), -1)).split(self.heads, 2)
        q, k = rotated(self.query_norm(q), cosine, sine), rotated(self.key_norm(k), cosine, sine)
        x_BTC = x_BTC + self.output(attention(q, k, v, mask))
        gate, up = self.gate_and_up(self.mlp_norm(x_BTC)).chunk(2, -1)
        return x_BTC + self.down(F.silu(gate) * up)


class Decoder(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.embedding = nn.Embedding(sizes.vocabulary, sizes.width)
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))
        self.norm = nn.RMSNorm(sizes.width, eps=sizes.norm_epsilon)
        self.head = self.embedding if sizes.tied else nn.Linear(sizes.width, sizes.vocabulary, bias=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens_BT, cosine, sine, mask):
        x_BTC = self.embedding(tokens_BT)
        for block in self.blocks:
            x_BTC = block(x_BTC, cosine, sine, mask)
        return self.norm(x_BTC)


make_lists = compiled(create_block_mask) if DEVICE == "cuda" else create_mask  # FlexAttention has no backward on CPUs


def document_mask(start_BT, make):
    """make: make_lists, or create_mask for bool [B, 1, T, T]. None if start_BT is."""
    if start_BT is None:
        return None

    def sees(b, h, q, k):
        return (q >= k) & (k >= start_BT[b, q])

    batch, positions = start_BT.shape
    return make(sees, batch, None, positions, positions, device=DEVICE)


@compiled
def sum_of_losses(logits, labels):
    return F.cross_entropy(logits.float(), labels, reduction="sum", ignore_index=IGNORED)


class Training:
    """Steps of a bfloat16 model with fp32 master weights. `fp8`: one of RECIPES, or None."""

    def __init__(self, sizes, text, batch, micro_batch, tune=False, fp8=None):
        self.text, self.batch, self.micro_batch = text, batch, micro_batch
        with torch.device(DEVICE):
            self.model = Decoder(sizes)
        self.masters = [parameter.detach().clone() for parameter in self.model.parameters()]
        self.model.bfloat16()
        self.fp8_layers = multiply_in_fp8(self.model.blocks, fp8) if fp8 else 0
        self.copies = list(self.model.parameters())
        if DEVICE == "cuda":
            for block in self.model.blocks:
                block.compile(fullgraph=True, dynamic=False, mode="max-autotune-no-cudagraphs" if tune else None)
        self.optimizer = torch.optim.AdamW(self.masters, lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)

    def check(self):
        """Compares a block with the same one that is not compiled and has a T x T mask. Raises a ValueError."""
        tokens_BT, _, start_BT = self.text.batch(torch.arange(self.micro_batch, device=DEVICE))
        block, x_BTC, tables = self.model.blocks[0], self.model.embedding(tokens_BT), self.text.rotary(start_BT)
        found = block(x_BTC, *tables, document_mask(start_BT, make_lists))
        wanted = block.forward(x_BTC, *tables, document_mask(start_BT, create_mask))
        most = LARGEST_ERROR[self.fp8_layers > 0]
        check_same("the result of a compiled block", found - x_BTC, wanted - x_BTC, most)
        gradients = [torch.autograd.grad(y, block.qkv.weight, torch.ones_like(y))[0] for y in (found, wanted)]
        check_same("the gradient of qkv of a compiled block", *gradients, most)

    def step(self):
        """Returns the mean loss of the labels that count."""
        windows = torch.randint(WINDOWS, (self.batch,), device=DEVICE)
        micro_batches = [self.text.batch(part) for part in windows.split(self.micro_batch)]
        count = sum((labels != IGNORED).sum() for _, labels, _ in micro_batches)
        loss = 0
        for micro_batch in micro_batches:
            loss = loss + self.backward(*micro_batch, count)
            self.collect_gradients()
        nn.utils.clip_grad_norm_(self.masters, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        with torch.no_grad():
            torch._foreach_copy_(self.copies, self.masters)
        return loss

    def backward(self, tokens_BT, labels_BT, start_BT, count):
        hidden = self.model(tokens_BT, *self.text.rotary(start_BT), document_mask(start_BT, make_lists))
        gradients, loss = [], 0
        for rows, labels in zip(hidden.detach().flatten(0, 1).chunk(CHUNKS), labels_BT.flatten().chunk(CHUNKS)):
            rows.requires_grad_()
            chunk_loss = sum_of_losses(F.linear(rows, self.model.head.weight), labels) / count
            chunk_loss.backward()
            gradients.append(rows.grad)
            loss = loss + chunk_loss.detach()
        hidden.backward(torch.cat(gradients).view_as(hidden))
        return loss

    def collect_gradients(self):
        """Adds the bfloat16 gradients of a micro-batch to the gradients of the master weights."""
        gradients = [copy.grad for copy in self.copies]
        if self.masters[0].grad is None:
            for master in self.masters:
                master.grad = torch.empty_like(master)
            torch._foreach_copy_([master.grad for master in self.masters], gradients)
        else:
            torch._foreach_add_([master.grad for master in self.masters], gradients)
        for copy in self.copies:
            copy.grad = None


def milliseconds(step, warm_up, steps):
    """Returns the time of each step after the warm-up, and the last loss. Nothing waits for the GPU in between."""
    def now():
        if DEVICE == "cpu":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    for _ in range(warm_up):
        step()
    if DEVICE == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    times = [now()]
    for _ in range(steps):
        loss = step()
        times.append(now())
    loss = loss.item()
    return [before.elapsed_time(after) if DEVICE == "cuda" else 1e3 * (after - before) for before, after in zip(times, times[1:])], loss


def values_of_steps(training, model, config, warm_up, steps):
    """Times the steps of `training`, which trains the model with a batch. Returns the values that `bench step --json` has too."""
    times, loss = milliseconds(training.step, warm_up, steps)
    times.sort()
    peak = torch.cuda.max_memory_allocated() if DEVICE == "cuda" else 0
    return {"parameters": sum(parameter.numel() for parameter in model.parameters()), "batch": config["batch"],
            "micro_batch": config["micro_batch"], "steps": len(times), "milliseconds": quantile(times, 0.5),
            "milliseconds_p10": quantile(times, 0.1), "milliseconds_p90": quantile(times, 0.9), "peak_memory_bytes": peak, "loss": loss}


def read_config(path, overrides):
    """Reads a configuration of Strata with its overrides a.b=value."""
    with open(path, encoding="utf-8") as file:
        config = yaml.safe_load(file)
    for override in overrides:
        *sections, key, value = *override.partition("=")[0].split("."), override.partition("=")[2]
        section = config
        for name in sections:
            section = section.setdefault(name, {})
        section[key] = yaml.safe_load(value)
    return config


def decoder_sizes(model):
    """Returns the sizes of a section `model:` of family llama that has no other keys than SIZES."""
    defaults = {"key_value_heads": model["heads"], "head_width": model["width"] // model["heads"], "query_key_norm": "none", "norm_epsilon": 1e-5,
                "rotary_base": 10000, "rotary_scaling": {"type": "none"}, "tied": False}
    sizes = types.SimpleNamespace(**{**defaults, **model})
    sizes.norm_epsilon = float(sizes.norm_epsilon)  # YAML 1.1 reads 1e-6 as text
    return sizes


def sizes_of(path, overrides):
    """Returns the sizes of a model of family llama, and its configuration."""
    config = read_config(path, overrides)
    model = config["model"]
    unknown = set(model) - set(SIZES)
    if model["family"] != "llama" or unknown:
        raise SystemExit(f"{path}: a model of family llama with the keys {', '.join(SIZES)} was expected, found {model['family']} with "
                         f"{', '.join(sorted(unknown)) or 'no other keys'}")
    return decoder_sizes(model), config


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", help="a configuration of Strata, of which model, batch and micro_batch count")
    parser.add_argument("overrides", nargs="*", help="a.b.c=value")
    parser.add_argument("--document-tokens", type=int, help="average length of documents, with data.documents=separate")
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--tune", action="store_true", help="compile with max-autotune, which takes minutes")
    parser.add_argument("--fp8", choices=RECIPES, help="linear layers of blocks in FP8 by torchao; beside precision.linear.scaling current and row")
    arguments = parser.parse_intermixed_args()
    sizes, config = sizes_of(arguments.config, arguments.overrides)
    separate = config["data"].get("documents") == "separate"
    if arguments.document_tokens and not separate:
        parser.error("--document-tokens is the length of separate documents; give data.documents=separate with it")
    document_tokens = (arguments.document_tokens or sizes.sequence // 2) if separate else None
    torch.manual_seed(1)
    training = Training(sizes, Text(sizes, document_tokens), config["batch"], config["micro_batch"], arguments.tune, arguments.fp8)
    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], set_priority=True):
        training.check()
        values = values_of_steps(training, training.model, config, arguments.warm_up, arguments.steps)
    print(json.dumps({**values_of_machine(), "peer": "torch.compile", "fp8": arguments.fp8, "fp8_layers": training.fp8_layers,
                      "tokens_per_sample": sizes.sequence, "document_tokens": document_tokens,
                      "tokens_per_second": 1e3 * config["batch"] * sizes.sequence / values["milliseconds"],
                      "peak_gibibytes": values["peak_memory_bytes"] / 2**30, **values}))


if __name__ == "__main__":
    main()
