# SPDX-License-Identifier: MIT
"""Times PyTorch eager, torch.compile, cuDNN and cuSPARSE at the shapes of `tools/strata bench kernels`.

Run it by hand on a machine with a GPU:

    python3 tools/bench/peers.py >> kernels.jsonl         # the same JSON lines, with eager, compile, cudnn, ... as level
    python3 tools/bench/side_by_side.py kernels.jsonl     # ours and theirs in one table

It needs torch with its Triton. Timing is as in timer.cc: medians between two events while the queue is full, over
rotating inputs."""
import argparse
import json
import sys

import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

CLOCK = 2e9  # cycles per second, for the kernel that delays the queue


def median_seconds(call):
    """The median of many calls, up to ten between two events; a sleeping kernel delays them until all are queued."""
    for i in range(3):
        call(i)
    torch.cuda.synchronize()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call(0)
    end.record()
    torch.cuda.synchronize()
    whole = max(start.elapsed_time(end), 1e-3)
    together = max(1, min(10, int(1 / whole)))
    count = max(7, min(20, int(20 / whole) // together))
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    torch.cuda._sleep(int(CLOCK * min(3e-4 * count * together, 0.05)))
    for i in range(count):
        events[i].record()
        for j in range(together):
            call(i * together + j)
    events[count].record()
    torch.cuda.synchronize()
    return sorted(events[i].elapsed_time(events[i + 1]) for i in range(count))[count // 2] * 1e-3 / together


def random(*sizes, dtype=torch.bfloat16):
    return torch.randn(*sizes, device="cuda", dtype=dtype)


class Peer:
    """An op at a shape: functions that make new inputs and run it, and the least bytes and FLOPs of each direction."""

    def __init__(self, op, shape, make, run, forward, backward=(0, 0), differentiable=True, deterministic=False, dtype=torch.bfloat16, level=None):
        self.op, self.shape, self.make, self.run, self.dtype, self.level = op, shape, make, run, dtype, level
        self.work = {"forward": forward, "backward": backward}
        self.differentiable, self.deterministic = differentiable, deterministic


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


def turned(qkv, cosine, sine, heads=32, shared=8, width=128):
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
               lambda x: turned(x, angle.cos(), angle.sin()), (moved, 0), (moved, 0))


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


def attention_peers():
    for batch, positions, heads, shared, width in ((64, 1024, 12, 12, 64), (8, 4096, 32, 8, 64), (2, 8192, 32, 8, 128)):
        flops = 2 * batch * positions * (positions + 1) * heads * width
        packed, y = batch * positions * (heads + 2 * shared) * width, batch * positions * heads * width
        name = f"{batch}x{positions} positions, {heads}" + (f"/{shared}" if shared != heads else "")
        for deterministic in (False, True):
            yield Peer("attention", f"{name} heads of {width}, causal" + (", deterministic" if deterministic else ""),
                       lambda b=batch, t=positions, h=heads, k=shared, d=width:
                       [random(b, h, t, d), random(b, k, t, d), random(b, k, t, d)],
                       lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True),
                       (2 * (packed + y) + 4 * batch * positions * heads, flops),
                       (4 * (packed + y) + 4 * batch * positions * heads, 2.5 * flops), deterministic=deterministic)


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


def sets_of(peer):
    """Returns so many sets of inputs that no cache holds a set when it is used again."""
    first = peer.make()
    size = sum(tensor.nbytes for tensor in first)
    count = max(2, min(64, 2 * torch.cuda.get_device_properties(0).L2_cache_size // max(size, 1) + 1)) if first else 1
    sets = [first] + [peer.make() for _ in range(count - 1)]
    for inputs in sets:
        for tensor in inputs:
            tensor.requires_grad_(peer.differentiable)
    return sets


def time_peer(peer, run):
    """Returns the seconds of forward and backward."""
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.use_deterministic_algorithms(peer.deterministic)
    sets = sets_of(peer)
    roots = lambda results: [r for r in (results if isinstance(results, tuple) else (results,))]
    if peer.op == "linear_cross_entropy":  # timed as a whole, as Strata's op is
        def both(i):
            torch.autograd.grad(run(*sets[i % len(sets)]), sets[i % len(sets)])
        return {"forward": median_seconds(both)}
    kept = [None] * len(sets)

    def forward(i):
        kept[i % len(sets)] = run(*sets[i % len(sets)])

    seconds = {"forward": median_seconds(forward)}
    if peer.differentiable:
        for i in range(len(sets)):
            forward(i)
        gradients = [torch.randn_like(result) for result in roots(kept[0])]

        def backward(i):
            torch.autograd.grad(roots(kept[i % len(sets)]), sets[i % len(sets)], gradients, retain_graph=True)

        seconds["backward"] = median_seconds(backward)
    return seconds


def variants(peer, wanted):
    """Yields the ways in which PyTorch can run the op, as (level, function)."""
    if peer.level:
        yield peer.level, peer.run
        return
    if peer.op == "attention":
        for level, backend in (("flash", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)):
            def run(*inputs, backend=backend):
                with sdpa_kernel(backend):
                    return peer.run(*inputs)
            yield level, run
        return
    yield "eager", peer.run
    if peer.differentiable:
        torch._dynamo.reset()
        yield "compile", torch.compile(peer.run, dynamic=False, mode="max-autotune-no-cudagraphs" if "max" in wanted else None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", action="append", help="only these ops")
    parser.add_argument("--level", action="append", help="only eager, compile, cudnn, flash, cusparse, segments, index_add; max: autotune what compiles")
    arguments = parser.parse_args()
    wanted = set(arguments.level or [])
    for group in (norm_peers, elementwise_peers, vocabulary_peers, product_peers, attention_peers, graph_peers, optimizer_peer):
        for peer in group():
            if arguments.op and peer.op not in arguments.op:
                continue
            for level, run in variants(peer, wanted):
                if wanted - {"max"} and level not in wanted:
                    continue
                line = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "op": peer.op, "shape": peer.shape,
                        "dtype": "bf16" if peer.dtype == torch.bfloat16 else "fp32", "level": level}
                try:
                    timed = time_peer(peer, run)
                except Exception as error:  # one peer that cannot run must not prevent the others
                    print(json.dumps({**line, "not_timed": str(error).split("\n")[0]}), flush=True)
                    continue
                for direction, seconds in timed.items():
                    moved, flops = peer.work[direction]
                    row = {**line, "direction": direction, "microseconds": 1e6 * seconds}
                    if moved:
                        row["gigabytes_per_second"] = 1e-9 * moved / seconds
                    if flops:
                        row["teraflops_per_second"] = 1e-12 * flops / seconds
                    print(json.dumps(row), flush=True)
                torch.cuda.empty_cache()


if __name__ == "__main__":
    sys.exit(main())
