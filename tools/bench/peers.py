# SPDX-License-Identifier: MIT
"""Times PyTorch eager, torch.compile, FlexAttention, cuDNN and cuSPARSE at the shapes of `tools/strata bench kernels`.

Run it by hand on a machine with a GPU:

    python3 tools/bench/peers.py >> kernels.jsonl         # the same JSON lines, with eager, compile, cudnn, ... as level
    python3 tools/bench/side_by_side.py kernels.jsonl     # ours and theirs in one table

    python3 tools/bench/peers.py --op attention --pattern "causal & window(256)" --shape 8x4096x32x8x64

A pattern is written as in a row's shape, with what follows it: "causal, softcap 30", "causal & documents, 8 documents".
It needs torch with its Triton."""
import argparse
import sys

import attention_peers
import torch
from peer_timing import Peer, print_times, random
from torch.nn import functional as F


def norm_peers():
    def bytes_of(rows, width, tensors, vectors):
        return (2 * rows * width * tensors + 2 * width * vectors + 4 * rows, 0)

    for rows, width in ((16384, 4096), (8192, 8192)):
        yield Peer("rms_norm", f"{rows}x{width}", lambda r=rows, w=width: [random(r, w), random(w)],
                   lambda x, w: F.rms_norm(x, w.shape, w, 1e-5), bytes_of(rows, width, 2, 1), bytes_of(rows, width, 3, 2))
    for rows, width in ((16384, 4096), (8192, 8192), (32768, 4096)):
        yield Peer("add_rms_norm", f"{rows}x{width}", lambda r=rows, w=width: [random(r, w), random(r, w), random(w)],
                   lambda a, b, w: ((s := a + b), F.rms_norm(s, w.shape, w, 1e-5)),
                   bytes_of(rows, width, 4, 1), bytes_of(rows, width, 4, 2))
    for rows, width in ((65536, 768), (32768, 1600)):
        yield Peer("layer_norm", f"{rows}x{width} bias", lambda r=rows, w=width: [random(r, w), random(w), random(w)],
                   lambda x, w, b: F.layer_norm(x, w.shape, w, b), bytes_of(rows, width, 2, 2), bytes_of(rows, width, 3, 3))
        yield Peer("add_layer_norm", f"{rows}x{width} bias",
                   lambda r=rows, w=width: [random(r, w), random(r, w), random(w), random(w)],
                   lambda x, y, w, b: ((s := x + y), F.layer_norm(s, w.shape, w, b)),
                   bytes_of(rows, width, 4, 2), bytes_of(rows, width, 4, 3))
    yield Peer("layer_norm_gelu_tanh", "65536x1000 bias", lambda: [random(65536, 1000), random(1000), random(1000)],
               lambda x, w, b: F.gelu(F.layer_norm(x, w.shape, w, b), approximate="tanh"),
               bytes_of(65536, 1000, 2, 2), bytes_of(65536, 1000, 3, 3))


def rotated(qkv, cosine, sine, heads=32, shared=8, width=128):
    batch, positions, _ = qkv.shape
    by_head = qkv.view(batch, positions, heads + 2 * shared, width)
    x = by_head[:, :, : heads + shared].float()
    first, second = x.chunk(2, -1)
    c, s = cosine[:, None], sine[:, None]
    y = torch.cat([first * c - second * s, second * c + first * s], -1).to(qkv.dtype)
    return torch.cat([y, by_head[:, :, heads + shared:]], 2).view(qkv.shape)


def elementwise_peers():
    rows, width = 16384, 14336
    yield Peer("swiglu", f"{rows}x{width}", lambda: [random(rows, 2 * width)],
               lambda x: F.silu(x[:, :width]) * x[:, width:], (6 * rows * width, 0), (10 * rows * width, 0))
    yield Peer("swiglu", f"{rows}x{width} gelu_tanh", lambda: [random(rows, 2 * width)],
               lambda x: F.gelu(x[:, :width], approximate="tanh") * x[:, width:], (6 * rows * width, 0), (10 * rows * width, 0))
    for name, approximate in (("gelu", "none"), ("gelu_tanh", "tanh")):
        yield Peer("activation", "65536x3072 " + name, lambda: [random(65536, 3072)],
                   lambda x, a=approximate: F.gelu(x, approximate=a), (4 * 65536 * 3072, 0), (6 * 65536 * 3072, 0))
    yield Peer("dropout", "65536x768", lambda: [random(65536, 768)], lambda x: F.dropout(x, 0.1),
               (4 * 65536 * 768, 0), (4 * 65536 * 768, 0))
    angle = torch.rand(8192, 64, device="cuda")
    moved = 2 * 16384 * 128 * 40 * 2 + 8192 * 128 * 4
    yield Peer("rotary", "2x8192 positions, 32/8 heads of 128", lambda: [random(2, 8192, 48 * 128)],
               lambda x: rotated(x, angle.cos(), angle.sin()), (moved, 0), (moved, 0))


def vocabulary_peers():
    indices = torch.randint(0, 50304, (65536,), device="cuda")
    yield Peer("embedding", "65536x768 of 50304", lambda: [random(50304, 768)], lambda w: F.embedding(indices, w),
               (65536 * 8 + 4 * 65536 * 768, 0), (65536 * 8 + 2 * 65536 * 768 + 2 * 50304 * 768, 0))
    for rows, width in ((65536, 50304), (16384, 128256)):
        targets = torch.randint(0, width, (rows,), device="cuda")
        yield Peer("cross_entropy", f"{rows}x{width}", lambda r=rows, w=width: [random(r, w)],
                   lambda x, t=targets: F.cross_entropy(x, t), (rows * 8 + 4 * rows * width, 0))
    for rows, width, classes in ((65536, 768, 50304), (16384, 4096, 128256)):
        targets = torch.randint(0, classes, (rows,), device="cuda")
        yield Peer("linear_cross_entropy", f"{rows}x{width}->{classes}",
                   lambda r=rows, i=width, v=classes: [random(r, i), random(v, i) * i**-0.5],
                   lambda x, w, t=targets: F.cross_entropy(F.linear(x, w), t),
                   (rows * 8 + 4 * rows * width + 6 * width * classes, 6 * rows * width * classes))


def optimizer_peer():
    elements = 1_200_000_000
    parameter = torch.zeros(elements, device="cuda", requires_grad=True)
    parameter.grad = torch.randn_like(parameter)
    optimizer = torch.optim.AdamW([parameter], fused=True)
    optimizer.step()
    yield Peer("adamw", str(elements), lambda: [], optimizer.step, (28 * elements, 0), differentiable=False)


def product_peers():
    for rows, width, out, gelu in ((65536, 768, 3072, True), (8192, 4096, 28672, False)):
        sizes = rows * width + width * out + rows * out
        extra = out + rows * out if gelu else 0
        flops = 2 * rows * width * out
        run = (lambda x, w, b: F.gelu(F.linear(x, w, b), approximate="tanh")) if gelu else F.linear
        yield Peer("linear", f"{rows}x{width}->{out}" + (" gelu_tanh bias" if gelu else ""),
                   lambda r=rows, i=width, o=out, g=gelu: [random(r, i), random(o, i) * i**-0.5] + ([random(o)] if g else []),
                   run, (2 * (sizes + extra), flops), (2 * (sizes + rows * width + width * out + extra), 2 * flops))


class SparseProduct(torch.autograd.Function):
    """A sparse matrix product by cuSPARSE; the transposed matrix is made in advance."""

    @staticmethod
    def forward(context, x, matrix, transposed):
        context.transposed = transposed
        return matrix @ x

    @staticmethod
    def backward(context, gradient):
        return context.transposed @ gradient, None, None


def graph_peers():
    """cuSPARSE for sums; if the messages of all edges fit into memory, also segment_reduce, and index_add for sums."""
    width = 256
    for nodes, edges in ((169343, 2315598), (2449029, 123718280)):
        sources = (torch.rand(edges, device="cuda") ** 3 * nodes).long().clamp_(max=nodes - 1)
        targets = torch.randint(0, nodes, (edges,), device="cuda").sort()[0]
        offsets = lambda rows: torch.cat((rows.new_zeros(1), rows.bincount(minlength=nodes).cumsum(0)))
        begins, by_source, order = offsets(targets), *sources.sort(stable=True)
        for dtype in (torch.bfloat16, torch.float32):
            ones = torch.ones(edges, device="cuda", dtype=dtype)
            csr = lambda rows, columns: torch.sparse_csr_tensor(rows.int(), columns.int(), ones, (nodes, nodes))
            moved = 2 * dtype.itemsize * nodes * width + 4 * edges + 8 * nodes

            def peer(level, reduction, run):
                return Peer("neighbor_aggregate", f"{nodes}x{width}, {edges} edges {reduction}", lambda: [random(nodes, width, dtype=dtype)], run,
                            (moved, 2 * edges * width), (moved, 2 * edges * width), dtype=dtype, level=level)

            matrix, transposed = csr(begins, sources), csr(offsets(by_source), targets.index_select(0, order))
            yield peer("cusparse", "sum", lambda x: SparseProduct.apply(x, matrix, transposed))
            if edges > 10**7:
                continue  # the messages would take 63 or 127 GB
            for reduction in ("sum", "mean", "max"):
                yield peer("segments", reduction, lambda x: torch.segment_reduce(x.index_select(0, sources), reduction, offsets=begins, unsafe=True))
            yield peer("index_add", "sum", lambda x: torch.zeros_like(x).index_add(0, targets, x.index_select(0, sources)))


def variants(peer, wanted):
    """Yields the ways in which PyTorch can run the op, as (level, function)."""
    if peer.level:
        yield peer.level, peer.run
        return
    yield "eager", peer.run
    if peer.differentiable:
        torch._dynamo.reset()
        yield "compile", torch.compile(peer.run, dynamic=False, mode="max-autotune-no-cudagraphs" if "max" in wanted else None)


GROUPS = {  # what makes the peers of these ops
    norm_peers: ("rms_norm", "add_rms_norm", "layer_norm", "add_layer_norm", "layer_norm_gelu_tanh"),
    elementwise_peers: ("swiglu", "activation", "dropout", "rotary"),
    vocabulary_peers: ("embedding", "cross_entropy", "linear_cross_entropy"),
    product_peers: ("linear",),
    attention_peers.causal_peers: ("attention",),
    graph_peers: ("neighbor_aggregate",),
    optimizer_peer: ("adamw",),
}


def arguments_of_command():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", action="append", choices=[op for ops in GROUPS.values() for op in ops], help="only these ops")
    parser.add_argument("--level", action="append", default=[],
                        help="only eager, compile, flex, cudnn, flash, explicit, cusparse, segments, index_add; max: autotune what compiles")
    parser.add_argument("--pattern", action="append", default=[], help="attention with this pattern; all: the patterns of attention_peers.py")
    parser.add_argument("--shape", action="append", help="batch x positions x heads x heads of keys x width, for --pattern")
    parser.add_argument("--block", type=int, default=128, help="side of FlexAttention's blocks; less than 128 needs --level max")
    parser.add_argument("--check-only", action="store_true", help="time nothing; what was compiled stays in PyTorch's cache for a later process")
    return parser.parse_args()


def main():
    arguments = arguments_of_command()
    wanted = set(arguments.level)
    if arguments.pattern:
        groups = [lambda: attention_peers.pattern_peers(arguments.pattern, arguments.shape, arguments.block, wanted)]
    else:
        groups = [group for group, ops in GROUPS.items() if not arguments.op or set(ops) & set(arguments.op)]
    for group in groups:
        for peer in group():
            if arguments.op and peer.op not in arguments.op:
                continue
            for level, run in variants(peer, wanted):
                if not wanted - {"max"} or level in wanted:
                    print_times(peer, level, run, timed=not arguments.check_only)
                    torch.cuda.empty_cache()


if __name__ == "__main__":
    sys.exit(main())
