# SPDX-License-Identifier: MIT
"""Configurations drawn by lot, of which promises are compared with measured steps. A base is a model with a level, types and a sharding; its draws
have other numbers of layers and micro-batches, and all layers recomputed or none. Models are small on CPUs. On GPUs a step takes some
milliseconds to some tens of them: less is not worth a promise, and more not the time of a test."""
import json
import os
import random
import struct
import typing
import zlib

LONGEST = 0.04  # seconds that a step on a GPU is guessed to take at most
# Floating-point operations a second that a guess of a step on an H100 counts with.
PACE = {"float32": 3e13, "bfloat16": 2.5e14, "float16": 2.5e14, "fp8": 3e14}
DEPTHS = {"cpu": (4, 7), "cuda": (4, 16)}  # layers


class Base(typing.NamedTuple):
    kind: str
    text: str  # the configuration, with `layers` and `batch` of the largest draw
    words: str  # what it is, in short
    layers: int  # most layers and micro-batches of a draw
    micro_batches: int
    samples: int  # of a micro-batch, of all ranks
    keys: tuple = ()


class Draw(typing.NamedTuple):
    layers: int
    micro_batches: int
    keys: tuple  # overrides of the base


def text(lot, on_gpu):
    head = lot.choice((64, 128)) if on_gpu else lot.choice((32, 48))
    width = head * lot.choice((6, 8, 12)) if on_gpu else head * lot.choice((2, 4))
    model = {"type": "transformer", "family": lot.choice(("gpt2", "llama")), "heads": width // head, "width": width, "feed_forward": 3 * width,
             "sequence": lot.choice((512, 1024)) if on_gpu else lot.choice((64, 128)),
             "vocabulary": lot.choice((8192, 32768, 50304)) if on_gpu else lot.choice((256, 1000))}  # fmt: skip
    return model, {"type": "text", "train": "unused", "validation": "unused"}, lot.choice((4, 8))


def vision(lot, on_gpu):
    heads = lot.choice((4, 6, 8)) if on_gpu else lot.choice((2, 4))
    width = heads * (64 if on_gpu else lot.choice((16, 32)))
    model = {"type": "vision_transformer", "heads": heads, "width": width, "patch": 16 if on_gpu else lot.choice((4, 7)),
             "image_size": lot.choice((160, 224)) if on_gpu else 28, "channels": 3 if on_gpu else 1, "classes": 1000 if on_gpu else 10,
             "pooling": "mean"}  # fmt: skip
    data = {"type": "idx", "train_images": "a", "train_labels": "b", "validation_images": "c", "validation_labels": "d"}
    return model, data, lot.choice((32, 64) if on_gpu else (16, 32))


def graph(lot, on_gpu):
    model = {"type": "graph_network", "convolution": lot.choice(("sage", "gcn")), "width": lot.choice((128, 256) if on_gpu else (64, 96)),
             "features": lot.choice((64, 128)), "classes": 40, "norm": True}  # fmt: skip
    nodes = lot.choice((50000, 150000) if on_gpu else (2000, 4000))
    return model, {"type": "synthetic_graph", "nodes": nodes, "edges": 10 * nodes}, 1


def files(lot, on_gpu):
    """A vision transformer on PNG files (write_files), which threads decode."""
    model, _, micro_batch = vision(lot, on_gpu)
    model = {**model, "channels": 3, "image_size": 32 if model["image_size"] < 32 else model["image_size"], "patch": 8 if model["image_size"] < 32 else 16, "classes": 2}
    data = {"type": "image_folder", "train": "files/train", "validation": "files/train", "threads": lot.choice((1, 2, 4, 0) if on_gpu else (1, 2))}
    return model, data, micro_batch


def write_files(folder, side, count=256):
    """Writes PNG files of two classes below the folder: random blocks, as pictures have areas of one color."""
    lot = random.Random(side)
    for number in range(count):
        place = os.path.join(folder, "files", "train", f"class-{number % 2}")
        os.makedirs(place, exist_ok=True)
        rows = [b"\0" + b"".join(bytes(lot.choices(range(256), k=3)) * 8 for _ in range(-(-side // 8)))[: 3 * side] for _ in range(-(-side // 8))]
        parts = [(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(b"".join(rows[line // 8] for line in range(side)))), (b"IEND", b"")]
        with open(os.path.join(place, f"{number}.png"), "wb") as file:
            file.write(b"\x89PNG\r\n\x1a\n" + b"".join(struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in parts))


KINDS = (text, vision, graph, text)  # half of the draws are of text


def flops(kind, model, data, layers, samples):
    """Floating-point operations of a step, as well as a guess needs them."""
    width = model["width"]
    if kind is graph:
        return 12 * data["nodes"] * width * width * layers
    tokens = samples * (model["sequence"] if kind is text else (model["image_size"] // model["patch"]) ** 2)
    return 6 * tokens * (13 * width * width * layers + width * model.get("vocabulary", 0))


def precision(lot, kind, on_gpu):
    """A name of PACE, the section of the configuration, and the levels that may compute so."""
    names = (("float32", "bfloat16", "bfloat16", "float16", "fp8") if kind is text else ("float32", "bfloat16", "float16")) if on_gpu else ("float32",)
    name = lot.choice(names)
    if name == "fp8":  # the other levels have no products in FP8
        return name, {"compute": "bfloat16", "linear": {"format": "fp8"}}, ("cuda",)
    if not on_gpu:
        return name, {"compute": name}, ("aten",)
    return name, {"compute": name}, ("aten", "triton") if name == "float32" else ("aten", "triton", "cuda")  # attention at level cuda has 16 bits


def base(lot, kind, ranks, device):
    """Draws until a step of the most layers is not guessed to be too long."""
    on_gpu = device == "cuda"
    while True:
        model, data, micro_batch = kind(lot, on_gpu)
        pace, types, levels = precision(lot, kind, on_gpu)
        layers = lot.randint(8, DEPTHS[device][1]) if on_gpu else DEPTHS[device][1]
        rounds = 1 if kind is graph else 4 if on_gpu else 3
        # The largest draw of the base has half of the most micro-batches, so that not all bases are small.
        if not on_gpu or flops(kind, model, data, layers, micro_batch * max(rounds // 2, 1)) / PACE[pace] <= LONGEST:
            break
    level = lot.choice(levels)
    samples = 1 if kind is graph else micro_batch * ranks
    sections = {
        "run": {"folder": "unused", "seed": 1, "ranks": ranks, "device": device, "threads": 0 if on_gpu else 1},
        "steps": 50, "batch": samples * rounds, "micro_batch": micro_batch, "model": {**model, "layers": layers}, "data": data,
        "precision": types, "kernels": {"default": level}, "optimizer": {"type": "adamw", "learning_rate": 1e-4}, "schedule": {"type": "constant"},
        "gradient_checkpointing": lot.choice(("none", "none", "selective")),
    }  # fmt: skip
    if on_gpu and kind is text and level == "cuda" and lot.random() < 0.5:
        sections["kernels"]["linear_cross_entropy"] = "cuda"
    if on_gpu and lot.random() < 0.2:
        sections["cuda_graph"] = "off"
    if ranks > 1:
        sections["sharding"] = {"strategy": lot.choice(("full", "full", "none")), "reshard_after_forward": lot.random() < 0.5}
    words = " ".join([model.get("family", kind.__name__), *([f"{data['threads']} readers"] if kind is files else []), f"width {model['width']}", level, pace, sections["gradient_checkpointing"],
                      *(["eager"] if "cuda_graph" in sections else []), *([sections["sharding"]["strategy"]] if ranks > 1 else [])])  # fmt: skip
    lines = "".join(f"{name}: {json.dumps(value) if isinstance(value, dict) else value}\n" for name, value in sections.items())
    return Base(kind.__name__, lines, words, layers, rounds, samples), (kind, model, data, micro_batch, pace)


def draws(lot, drawn, guessed, count, device):
    """`count` configurations of a base: overrides, of which `measure` needs to know nothing."""
    kind, model, data, micro_batch, pace = guessed
    sizes = [(layers, rounds) for layers in range(DEPTHS[device][0], drawn.layers + 1) for rounds in range(1, drawn.micro_batches + 1)
             if device == "cpu" or flops(kind, model, data, layers, micro_batch * rounds) / PACE[pace] <= LONGEST]  # fmt: skip
    found = []
    for layers, rounds in lot.sample(sizes, min(count, len(sizes))):
        keys = (f"model.layers={layers}", f"batch={drawn.samples * rounds}")
        if "gradient_checkpointing: none" in drawn.text and lot.random() < 0.25:
            keys += ("gradient_checkpointing=full",)
        found.append(Draw(layers, rounds, keys))
    return found


def lottery(lot, bases, count, ranks, device, kinds=KINDS):
    """Yields `bases` bases, of these kinds in turn, and `count` draws of each."""
    for number in range(bases):
        drawn, guessed = base(lot, kinds[number % len(kinds)], ranks, device)
        yield drawn, draws(lot, drawn, guessed, count, device)
