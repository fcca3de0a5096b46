# SPDX-License-Identifier: MIT
"""Compares the validation loss and accuracy of trained vision transformers and mixers with independent implementations in
PyTorch."""

import gzip
import math
import random
import struct
import tempfile
import unittest

import torch
import torch.nn.functional as functional
from parity_runs import trained

LAYERS, WIDTH, HEADS, SIZE, PATCH, CLASSES, IMAGES = 2, 24, 3, 12, 4, 7, 45

CONFIG = """
run: {{folder: {folder}/run, ranks: 1}}
steps: 30
batch: 16
micro_batch: 8
model: {{type: {model}, layers: 2, width: 24, image_size: 12, patch: 4, channels: {channels}, classes: 7}}
data: {{type: idx, train_images: {folder}/images, train_labels: {folder}/labels, validation_images: {folder}/images, validation_labels: {folder}/labels}}
optimizer: {{type: adamw, learning_rate: 1e-2}}
schedule: {{type: constant}}
"""


def write_idx(path, sizes, values):
    with gzip.open(path, "wb") as file:
        file.write(struct.pack(">BBBB%dI" % len(sizes), 0, 0, 8, len(sizes), *sizes) + bytes(values))


class Reference:
    """Models in fp64, by their papers, with timm's convolution as patch embedding and timm's names of sizes."""

    def __init__(self, weights):
        self.weights = weights

    def linear(self, x, name):
        return functional.linear(x, self.weights[name + ".weight"], self.weights[name + ".bias"])

    def norm(self, x, name):
        return functional.layer_norm(x, (WIDTH,), self.weights[name + ".weight"], self.weights[name + ".bias"], 1e-6)

    def scaled(self, x, name):
        return x * self.weights.get(name + ".weight", torch.ones(()))

    def mlp(self, x, name):
        y = self.linear(x, name + ".up")
        return self.linear(0.5 * y * (1 + torch.erf(y / math.sqrt(2))), name + ".down")

    def patches(self, images):
        filters = self.weights["patch_embedding.weight"].view(WIDTH, images.shape[1], PATCH, PATCH)
        return functional.conv2d(images, filters, self.weights["patch_embedding.bias"], stride=PATCH).flatten(2).transpose(1, 2)

    def vision_transformer(self, images):
        """Returns logits, by An Image is Worth 16x16 Words."""
        x = self.patches(images)
        token = self.weights.get("class_token.weight")
        if token is not None:
            x = torch.cat([token.expand(len(x), 1, WIDTH), x], 1)
        x = x + self.weights["position.weight"]
        for i in range(LAYERS):
            block = "blocks.%d." % i
            qkv = self.linear(self.norm(x, block + "norm1"), block + "attention.qkv")
            q, k, v = qkv.view(len(x), -1, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
            y = ((q @ k.transpose(2, 3) / math.sqrt(WIDTH // HEADS)).softmax(-1) @ v).transpose(1, 2).flatten(2)
            x = x + self.scaled(self.linear(y, block + "attention.output"), block + "attention_scale")
            x = x + self.scaled(self.mlp(self.norm(x, block + "norm2"), block + "mlp"), block + "mlp_scale")
        x = self.norm(x, "norm")
        return self.linear(x.mean(1) if token is None else x[:, 0], "head")

    def mixer(self, images):
        """Returns logits, by MLP-Mixer: An all-MLP Architecture for Vision."""
        x = self.patches(images)
        for i in range(LAYERS):
            block = "blocks.%d." % i
            x = x + self.mlp(self.norm(x, block + "norm1").transpose(1, 2), block + "mix_patches").transpose(1, 2)
            x = x + self.mlp(self.norm(x, block + "norm2"), block + "mix_channels")
        return self.linear(self.norm(x, "norm").mean(1), "head")


class VisionParityTest(unittest.TestCase):
    def check(self, model, channels, *overrides):
        numbers = random.Random(5)
        pixels = [numbers.randrange(256) for _ in range(IMAGES * channels * SIZE * SIZE)]
        labels = [numbers.randrange(CLASSES) for _ in range(IMAGES)]
        with tempfile.TemporaryDirectory() as folder:
            sizes = [IMAGES, channels, SIZE, SIZE] if channels > 1 else [IMAGES, SIZE, SIZE]
            write_idx(folder + "/images", sizes, pixels)
            write_idx(folder + "/labels", [IMAGES], labels)
            config = CONFIG.format(folder=folder, model=model, channels=channels)
            weights, ours = trained(folder, config, *overrides)

        images = torch.tensor(pixels, dtype=torch.float64).view(IMAGES, channels, SIZE, SIZE) / 255
        images = (images - images.mean()) / images.std()
        logits, targets = getattr(Reference(weights), model)(images), torch.tensor(labels)
        theirs = functional.cross_entropy(logits, targets).item()
        self.assertLess(abs(ours["validation_loss"] - theirs), 5e-6 * theirs)
        ranks = (logits > logits.gather(1, targets[:, None])).sum(1)  # number of classes with a higher logit than the right one
        self.assertEqual(round(ours["validation_accuracy"] * IMAGES), (ranks == 0).sum().item())
        self.assertEqual(round(ours["validation_top5_accuracy"] * IMAGES), (ranks < 5).sum().item())
        self.assertEqual(ours["validation_images"], IMAGES)
        # The model is far from its start, so that a part without effect would be found.
        self.assertLess(theirs, math.log(CLASSES) - 0.2)
        self.assertGreater(ours["validation_accuracy"], 1.5 / CLASSES)
        self.assertGreaterEqual(ours["validation_top5_accuracy"], ours["validation_accuracy"])
        return weights

    def test_class_token(self):
        weights = self.check("vision_transformer", 1, "model.heads=3")
        self.assertEqual(weights["position.weight"].shape, (10, WIDTH))

    def test_mean_of_patches(self):
        self.assertNotIn("class_token.weight", self.check("vision_transformer", 1, "model.heads=3", "model.pooling=mean"))

    def test_three_channels_and_layer_scale(self):
        """With a moving average, which is the one that is evaluated and exported."""
        weights = self.check("vision_transformer", 3, "model.heads=3", "model.layer_scale=0.5", "optimizer.moving_average=0.7")
        self.assertGreater((weights["blocks.1.mlp_scale.weight"] - 0.5).abs().max(), 0.05)

    def test_mixer(self):
        weights = self.check("mixer", 3, "model.token_width=5")
        self.assertEqual(weights["blocks.1.mix_patches.up.weight"].shape, (5, 9))


if __name__ == "__main__":
    unittest.main()
