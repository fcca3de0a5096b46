# SPDX-License-Identifier: MIT
"""Times one op of a peer as timer.cc times Strata's: medians between two events while the queue is full, over rotating
inputs. Without a GPU it times with the clock of the host."""
import json
import os
import signal
import time

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CLOCK = 2e9  # cycles per second, for the kernel that delays the queue
MOST_SETS = 64  # as timer.cc
LEVEL3_CACHE_SIZE = 194  # the number of _SC_LEVEL3_CACHE_SIZE, for which os.sysconf has no name


def sampled_seconds(call, device=DEVICE):
    """Samples of many calls, in order of size. Up to ten calls lie between two events; a sleeping kernel delays them until all are queued."""
    for i in range(3):
        call(i)
    if device == "cpu":
        return samples_on_cpu(call)
    torch.cuda.synchronize()
    before = time.perf_counter()
    call(0)
    host = time.perf_counter() - before
    torch.cuda.synchronize()
    whole = max(time.perf_counter() - before, 1e-6)
    together, count = calls_of_samples(whole)
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    torch.cuda._sleep(int(CLOCK * seconds_asleep(host, count * together)))
    for i in range(count):
        events[i].record()
        for j in range(together):
            call(i * together + j)
    events[count].record()
    torch.cuda.synchronize()
    return sorted(events[i].elapsed_time(events[i + 1]) * 1e-3 / together for i in range(count))


def calls_of_samples(whole):
    """Returns how many calls of `whole` seconds a sample has, and how many samples there are, as timer.cc does."""
    together = max(1, min(10, int(1e-3 / whole)))
    return together, max(7, min(20, int(0.02 / whole) // together))


def seconds_asleep(host, calls):
    """Returns how long the GPU sleeps while the host, which takes `host` seconds for one call, queues these calls. Calls of PyTorch take the
    host longer than calls of timer.cc, so the sleep may be ten times as long: the time of the host must not count as time of a peer."""
    return min(1.5 * host * calls, 0.5)


def samples_on_cpu(call):
    times = [time.perf_counter()]
    for i in range(7):
        call(i)
        times.append(time.perf_counter())
    return sorted(after - before for before, after in zip(times, times[1:]))


def quantile(samples, share):
    """As base/quantile.h. The samples are in order of size."""
    return samples[int(share * (len(samples) - 1) + 0.5)]


def median_seconds(call):
    return quantile(sampled_seconds(call), 0.5)


class Limit:
    """Raises a TimeoutError in the code that it surrounds, once that has taken these seconds."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __enter__(self):
        def stop(*_):
            raise TimeoutError(f"it took more than {self.seconds:g} s")

        self.before = signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, self.seconds)

    def __exit__(self, *_):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self.before)


def values_of_machine(device=DEVICE):
    """Returns the first values of every line of JSON."""
    return {"device": torch.cuda.get_device_name() if device == "cuda" else "cpu", "torch": torch.__version__}


def first_line(error):
    """Why something failed, in one line."""
    return f"{type(error).__name__}: {error}".split("\n")[0][:200]


def values_or_reason(measure, *arguments):
    """Returns the values of a row, which measure(*arguments) returns, or why there are none: one peer that cannot run must not prevent the others."""
    try:
        return measure(*arguments)
    except Exception as error:
        return {"not_timed": first_line(error)}


def forbid_fallback():
    """torch.compile falls back to code that is not compiled after some compilations of one function. It raises an error from now on."""
    torch._dynamo.config.fail_on_recompile_limit_hit = True


def random(*sizes, dtype=torch.bfloat16):
    return torch.randn(*sizes, device=DEVICE, dtype=dtype)


def error_of(found, wanted):
    """Returns the root of the sum of squares of the differences, as a share of the same root of `wanted`."""
    return ((found.float() - wanted.float()).norm() / wanted.float().norm()).item()


def check_same(name, found, wanted, most):
    """Raises a ValueError if error_of is more than `most`."""
    error = error_of(found, wanted)
    if not error <= most:  # also if it is not a number
        raise ValueError(f"{name} differs from the definition by {error:.3f} of its size; {most} is allowed")


class Peer:
    """An op at a shape: functions that make new inputs and run it, and the least bytes and FLOPs of each direction.

    check(peer, run) raises a ValueError if the results of run are wrong. Peers that call one function of PyTorch have none."""

    def __init__(self, op, shape, make, run, forward, backward=(0, 0), differentiable=True, deterministic=False, dtype=torch.bfloat16, level=None,
                 check=None):
        self.op, self.shape, self.make, self.run, self.dtype, self.level, self.check = op, shape, make, run, dtype, level, check
        self.work = {"forward": forward, "backward": backward}
        self.differentiable, self.deterministic = differentiable, deterministic


def cache_bytes(device):
    """Returns the bytes of the last-level cache, as timer.cc does."""
    if device == "cuda":
        return torch.cuda.get_device_properties(0).L2_cache_size
    size = os.sysconf(LEVEL3_CACHE_SIZE)
    return size if size > 0 else 32 << 20


def rotating_sets(size, device=DEVICE):
    """Returns how many sets of inputs calls take in turn, by the rule of timer.cc: no cache holds the data of a call, `size` bytes, when
    they are used again."""
    return max(2, min(MOST_SETS, 2 * cache_bytes(device) // max(size, 1) + 1))


def sets_of(peer):
    """Returns enough sets of inputs that no cache holds a set when its turn comes again."""
    first = peer.make()
    count = rotating_sets(sum(tensor.nbytes for tensor in first)) if first else 1
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


def print_times(peer, level, run, timed=True):
    """Checks the peer and prints a line of JSON for each direction, as `bench kernels --json` does. timed=False: only checks."""
    line = {**values_of_machine(), "op": peer.op, "shape": peer.shape, "dtype": "bf16" if peer.dtype == torch.bfloat16 else "fp32", "level": level}

    def measure():
        if peer.check:
            peer.check(peer, run)
        return time_peer(peer, run) if timed else {}

    seconds = values_or_reason(measure)
    if "not_timed" in seconds:
        print(json.dumps({**line, **seconds}), flush=True)
        return
    for direction, direction_seconds in seconds.items():
        moved, flops = peer.work[direction]
        row = {**line, "direction": direction, "microseconds": 1e6 * direction_seconds}
        if moved:
            row["gigabytes_per_second"] = 1e-9 * moved / direction_seconds
        if flops:
            row["teraflops_per_second"] = 1e-12 * flops / direction_seconds
        print(json.dumps(row), flush=True)
