# SPDX-License-Identifier: MIT
"""GPT-2, Llama and vision transformers as one writes them for torch.compile: packed queries, keys and values, and SDPA.

B batch, T positions, C width, H heads, D head width."""
import torch
from packed_text import rotary_tables
from peer_decoder import SIZES, Decoder, decoder_sizes, sum_of_losses
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend

# In the order in which SDPA tries them, for sdpa_kernel().
BACKENDS = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x_BTC):
        q, k, v = self.qkv(x_BTC).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y_BHTD = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.output(y_BHTD.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width, heads, feed_forward, causal, epsilon, gelu):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=epsilon), nn.LayerNorm(width, eps=epsilon)
        self.attention = Attention(width, heads, causal)
        self.up, self.down, self.gelu = nn.Linear(width, feed_forward), nn.Linear(feed_forward, width), gelu

    def forward(self, x_BTC):
        x_BTC = x_BTC + self.attention(self.norm1(x_BTC))
        return x_BTC + self.down(F.gelu(self.up(self.norm2(x_BTC)), approximate=self.gelu))


def blocks(model, causal, epsilon, gelu):
    """The blocks of a model, which is a section `model:` of a configuration."""
    width = model["width"]
    return nn.ModuleList(Block(width, model["heads"], model.get("feed_forward", 4 * width), causal, epsilon, gelu) for _ in range(model["layers"]))


class Gpt2(nn.Module):
    """The head has the weights of the embedding. Calls return the mean loss of the labels."""

    def __init__(self, model):
        super().__init__()
        width = model["width"]
        self.embedding, self.position = nn.Embedding(model["vocabulary"], width), nn.Embedding(model["sequence"], width)
        self.blocks, self.norm = blocks(model, True, 1e-5, "tanh"), nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens_BT, labels_BT):
        x_BTC = self.embedding(tokens_BT) + self.position.weight
        for block in self.blocks:
            x_BTC = block(x_BTC)
        logits = F.linear(self.norm(x_BTC), self.embedding.weight).flatten(0, 1)
        return sum_of_losses(logits, labels_BT.flatten()) / labels_BT.numel()


class Llama(Decoder):
    """The decoder of peer_decoder.py with head and loss in one piece. Calls return the mean loss of the labels."""

    def __init__(self, model):
        sizes = decoder_sizes(model)
        super().__init__(sizes)
        for name, table in zip(("cosine", "sine"), rotary_tables(sizes)):
            self.register_buffer(name, table[None, :, None], persistent=False)

    def forward(self, tokens_BT, labels_BT):
        logits = F.linear(super().forward(tokens_BT, self.cosine, self.sine, None), self.head.weight).flatten(0, 1)
        return sum_of_losses(logits, labels_BT.flatten()) / labels_BT.numel()


class VisionTransformer(nn.Module):
    """The head gets the last state of a class token, or the mean of all patches. Calls return the mean loss of the labels."""

    def __init__(self, model):
        super().__init__()
        width, patches = model["width"], (model["image_size"] // model["patch"]) ** 2
        self.patches = nn.Conv2d(model.get("channels", 3), width, model["patch"], model["patch"])
        self.token = None if model.get("pooling") == "mean" else nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.position = nn.Parameter(0.02 * torch.randn(patches + (self.token is not None), width))
        self.blocks, self.norm = blocks(model, False, 1e-6, "none"), nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, model["classes"])

    def forward(self, images, labels_B):
        x_BTC = self.patches(images).flatten(2).transpose(1, 2)
        if self.token is not None:
            x_BTC = torch.cat([self.token.expand(len(x_BTC), -1, -1).to(x_BTC.dtype), x_BTC], 1)
        x_BTC = x_BTC + self.position
        for block in self.blocks:
            x_BTC = block(x_BTC)
        x_BTC = self.norm(x_BTC)
        return F.cross_entropy(self.head(x_BTC.mean(1) if self.token is None else x_BTC[:, 0]).float(), labels_B)


KEYS = {Gpt2: {"type", "family", "layers", "width", "heads", "feed_forward", "sequence", "vocabulary"}, Llama: {*SIZES},
        VisionTransformer: {"type", "size", "pooling", "layers", "width", "heads", "feed_forward", "image_size", "patch", "channels", "classes"}}
VISION_SIZES = {f"vit_{name}_patch16_224": {"layers": layers, "width": 64 * heads, "heads": heads, "image_size": 224, "patch": 16}
                for name, layers, heads in (("tiny", 12, 3), ("small", 12, 6), ("base", 12, 12), ("large", 24, 16))}


def class_of(model):
    """Returns the class for a section `model:`, or None if there is none here."""
    if model["type"] == "vision_transformer":
        return VisionTransformer
    return {"gpt2": Gpt2, "llama": Llama}.get(model["family"]) if model["type"] == "transformer" else None


def with_sizes(model):
    """Returns the section with the values of a named size. Keys beside the name win over it."""
    return {**VISION_SIZES.get(model.get("size"), {}), **model}


def problem_of(model):
    """Why no class here is the model; empty if one is."""
    made = class_of(model)
    if made is None:
        return "a transformer of family gpt2 or llama, or a vision_transformer, was expected"
    if unknown := set(model) - KEYS[made]:
        return f"the model here has no {', '.join(sorted(unknown))}"
    if model.get("size", "custom") not in ("custom", *VISION_SIZES):
        return f"model.size is {model['size']}, expected custom or {', '.join(VISION_SIZES)}"
    return ""
