# SPDX-License-Identifier: MIT
"""GPT-2 and vision transformers as one writes them for torch.compile: packed queries, keys and values, and SDPA.

B batch, T positions, C width, H heads, D head width."""
import torch
from peer_decoder import sum_of_losses
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


class VisionTransformer(nn.Module):
    """Without a class token: the head gets the mean of all patches. Calls return the mean loss of the labels."""

    def __init__(self, model):
        super().__init__()
        width, patches = model["width"], (model["image_size"] // model["patch"]) ** 2
        self.patches = nn.Conv2d(model.get("channels", 3), width, model["patch"], model["patch"])
        self.position = nn.Parameter(0.02 * torch.randn(patches, width))
        self.blocks, self.norm = blocks(model, False, 1e-6, "none"), nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, model["classes"])

    def forward(self, images, labels_B):
        x_BTC = self.patches(images).flatten(2).transpose(1, 2) + self.position
        for block in self.blocks:
            x_BTC = block(x_BTC)
        return F.cross_entropy(self.head(self.norm(x_BTC).mean(1)).float(), labels_B)
