# SPDX-License-Identifier: MIT
"""Checks that vision transformers of timm compute the same here, in both directions, and that damaged folders are
refused."""

import json
import os
import struct
import unittest

import torch
from safetensors.torch import load_file, save_file

from imported_models import EXPORT, IMPORT, TRAIN, VALUES, ImportedModels, command
from timm_reference import MODELS, RESIZED, images_of, parameter, pattern

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "timm_reference.json"), encoding="utf-8") as reference:
    REFERENCE = json.load(reference)

REST = """
run: {{folder: {folder}/run}}
steps: 5
batch: 8
micro_batch: 4
data: {{type: idx, train_images: {folder}/images, train_labels: {folder}/labels, validation_images: {folder}/images, validation_labels: {folder}/labels}}
optimizer: {{type: adamw, learning_rate: 1e-2}}
schedule: {{type: constant}}
{more}
"""


class TimmTest(ImportedModels):
    rest = REST

    def write_theirs(self, name, **changes):
        """Writes the folder as timm does, with the values of `changes` in config.json."""
        os.makedirs(self.path("theirs"), exist_ok=True)
        config = json.loads(json.dumps(REFERENCE[name]["config"]))
        for key, value in changes.items():
            (config["model_args"] if key in ("reg_tokens", "qkv_bias", "depth", "patch_size", "num_heads", "act_layer", "img_size", "embed_dim", "fc_norm")
             else config)[key] = value
        with open(self.path("theirs/config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        tensors = {key: parameter(key, shape) for key, shape in REFERENCE[name]["parameters"].items()}
        save_file(tensors, self.path("theirs/model.safetensors"), {"format": "pt"})
        return tensors

    def write_data(self, arguments):
        channels, side = arguments.get("in_chans", 3), arguments["img_size"]
        for name, sizes, values in (("images", [40, channels, side, side], bytes(i * i % 251 for i in range(40 * channels * side * side))),
                                    ("labels", [40], bytes(i % 7 for i in range(40)))):
            with open(self.path(name), "wb") as file:
                file.write(struct.pack(">BBBB%dI" % len(sizes), 0, 0, 8, len(sizes), *sizes) + values)

    def test_their_models_here(self):
        for name, arguments in MODELS.items():
            with self.subTest(name):
                self.setUp()
                theirs = REFERENCE[name]
                self.write_theirs(name)
                self.write_data(arguments)
                command(IMPORT, self.path("theirs"), self.path("weights"))
                with open(self.path("inputs"), "wb") as file:
                    file.write(images_of(arguments).numpy().tobytes())
                command(VALUES, self.config("weights"), self.path("weights"), self.path("inputs"), self.path("values"))
                ours = load_file(self.path("values/model.safetensors"))
                logits = torch.tensor(theirs["logits"])
                self.assertGreater(logits.std(0).min().item(), 0.05, "all images look the same to this model")
                self.assertLess((ours.pop("logits") - logits).abs().max().item(), 1e-5 * logits.abs().max().item())
                self.assertLess(abs(ours.pop("loss").item() - theirs["loss"]), 1e-5)

                # The patterns are imported under timm's names too, so each gradient meets the right pattern.
                save_file({key: pattern(key + "'", shape) for key, shape in theirs["parameters"].items()}, self.path("theirs/model.safetensors"))
                command(IMPORT, self.path("theirs"), self.path("patterns"))
                patterns = load_file(self.path("patterns/model.safetensors"))
                self.assertEqual(set(patterns), set(ours))
                products = sorted((ours[key] * patterns[key]).sum().item() for key in ours)
                for mine, reference in zip(products, sorted(theirs["gradients"].values()), strict=True):
                    self.assertLess(abs(mine - reference), 1e-4 * max(5e-2, abs(reference)))

    def test_our_runs_there(self):
        for name, arguments in MODELS.items():
            with self.subTest(name):
                self.setUp()
                start = self.write_theirs(name)
                self.write_data(arguments)
                said = command(IMPORT, self.path("theirs"), self.path("start"))
                of_pixels = REFERENCE[name]["config"]["pretrained_cfg"]
                if "mean" in of_pixels:
                    self.assertRegex(said, r"data: \{mean: \[%s, .*\], deviation: \[%s, " % (of_pixels["mean"][0], of_pixels["std"][0]))
                config = self.config("start", "checkpoint: {initial_weights: %s}" % self.path("start"))
                command(TRAIN, config)
                command(EXPORT, self.path("run"), self.path("native"))
                command(EXPORT, self.path("run"), self.path("exported"), "--format", "timm", "--file-bytes", "100000000")
                exported = load_file(self.path("exported/model.safetensors"))
                self.assertEqual({key: list(value.shape) for key, value in exported.items()}, REFERENCE[name]["parameters"])
                self.assertTrue(all((exported[key] - start[key]).abs().max() > 1e-3 for key in exported), "it was not trained")

                with open(self.path("exported/config.json"), encoding="utf-8") as file:
                    written = json.load(file)
                theirs = REFERENCE[name]["config"]
                for key, value in theirs["model_args"].items():
                    self.assertEqual(written["model_args"][key], value[0] if key == "img_size" else value, key)
                for key in ("num_classes", "num_features", "global_pool"):
                    self.assertEqual(written[key], theirs[key])
                pixels = written["pretrained_cfg"]
                self.assertEqual(pixels["input_size"], theirs["pretrained_cfg"]["input_size"])
                self.assertEqual(len(pixels["mean"]), arguments.get("in_chans", 3))
                values = torch.tensor([i * i % 251 for i in range(40 * torch.Size(pixels["input_size"]).numel())], dtype=torch.float64) / 255
                self.assertAlmostEqual(pixels["mean"][0], values.mean().item(), places=9)
                self.assertAlmostEqual(pixels["std"][0], values.std().item(), places=9)

                # The way back is exact, bit for bit.
                command(IMPORT, self.path("exported"), self.path("again"))
                self.assert_same_bits("native", "again")
                with open(self.path("start/model.yaml"), encoding="utf-8") as first, open(self.path("again/model.yaml"), encoding="utf-8") as second:
                    self.assertEqual(first.read(), second.read())

    def test_other_images_and_classes(self):
        for name, arguments in MODELS.items():
            with self.subTest(name):
                self.setUp()
                self.write_theirs(name)
                size = RESIZED // arguments["patch_size"] * arguments["patch_size"]
                command(IMPORT, self.path("theirs"), self.path("weights"), "--image-size", str(size), "--classes", "3")
                weights = load_file(self.path("weights/model.safetensors"))
                total, last = REFERENCE[name]["resized"]
                positions = weights["position.weight"]
                self.assertLess((positions[-1, :5] - torch.tensor(last)).abs().max().item(), 1e-6)
                self.assertLess(abs((positions.flatten().double() * pattern("resized", [positions.numel()]).double()).sum().item() - total), 1e-4)
                self.assertEqual(weights["head.weight"].shape, (3, 24))
                self.assertEqual(weights["head.weight"].abs().max().item(), 0)
                self.write_data({**arguments, "img_size": size})
                text = command(TRAIN, self.config("weights", "checkpoint: {initial_weights: %s}" % self.path("weights")), "steps=1", expected=3)
                self.assertIn("outside of the 3 classes", text)
        command(IMPORT, self.path("theirs"), self.path("odd"), "--image-size", "16", expected=2)

    def test_what_does_not_fit_is_refused(self):
        def refused(expected, **changes):
            tensors = self.write_theirs(changes.pop("of", "class_token"), **changes)
            text = command(IMPORT, self.path("theirs"), self.path("weights"), expected=3)
            self.assertIn(expected, text)
            self.assertFalse(os.path.exists(self.path("weights/model.safetensors")))
            return tensors

        for expected, changes in (
                ("architecture: expected vit_{tiny,small,base,large}_patch<pixels>_<pixels>, got \"resnet50\"", {"architecture": "resnet50"}),
                ("got \"vit_base_patch16_clip_224\"", {"architecture": "vit_base_patch16_clip_224"}),
                ("architecture: expected", {"architecture": "vit_base_patch99999_224"}),
                ("architecture: expected", {"architecture": "vit_base_patch0_224"}),
                ("global_pool: expected \"token\" or \"avg\", got \"map\"", {"global_pool": "map"}),
                ("model_args: reg_tokens: expected 0", {"reg_tokens": 4}),
                ("model_args: qkv_bias: expected true", {"qkv_bias": False}),
                ("model_args: act_layer: expected no such key", {"act_layer": "quick_gelu"}),
                ("model_args: img_size: expected a square", {"img_size": [12, 16]}),
                ("model_args: img_size: expected a positive integer up to 65536", {"img_size": 70000}),
                ("model_args: embed_dim: expected a positive integer up to 1000000", {"embed_dim": 10**9}),
                ("model_args: depth: expected a positive integer", {"depth": -1}),
                ("5 heads do not divide the width 24", {"num_heads": 5}),
                ("patches of 5", {"patch_size": 5}),
                ("model_args: fc_norm: expected false", {"of": "mean", "fc_norm": True}),
                ("model_args: fc_norm: expected false, because of global_pool", {"of": "mean", "fc_norm": None}),
                ("blocks.2.attn.qkv.weight is missing", {"depth": 3}),
                ("blocks.1.norm1.weight is no tensor of this model", {"depth": 1}),
                ("pos_embed has another shape", {"img_size": 16})):
            with self.subTest(expected):
                refused(expected, **changes)
        self.write_theirs("class_token")
        self.write_data(MODELS["class_token"])
        command(IMPORT, self.path("theirs"), self.path("weights"))
        command(TRAIN, self.config("weights"), "steps=1")
        text = command(EXPORT, self.path("run"), self.path("hf"), "--format", "hf", expected=2)
        self.assertIn("hf is for language models, timm for vision transformers", text)


if __name__ == "__main__":
    unittest.main()
