# SPDX-License-Identifier: MIT
"""The results of timm 1.0.31, in timm_reference.json. To write it where timm is installed: python3
tests/tools/hf/timm_reference.py"""

import json
import os
import tempfile

import torch

# Models by their arguments. Widths, depths and sizes are all different.
SMALL = {"img_size": 12, "patch_size": 4, "embed_dim": 24, "depth": 2, "num_heads": 3, "num_classes": 7}
MODELS = {
    "class_token": {**SMALL, "mlp_ratio": 2.5},
    "mean": {**SMALL, "class_token": False, "global_pool": "avg", "fc_norm": False, "in_chans": 1},
    "layer_scale": {**SMALL, "patch_size": 3, "num_heads": 2, "init_values": 0.1, "drop_path_rate": 0.1},
}
IMAGES, RESIZED = 9, 20


def pattern(name, shape):
    """Numbers that any program can compute again, different for each name."""
    count = 1
    for extent in shape:
        count *= extent
    phase = sum((i + 1) * byte for i, byte in enumerate(name.encode())) % 1009
    index = torch.arange(count, dtype=torch.float64)
    return (index * index * 0.618 + index * 1.7 + phase).sin().view(shape).float()


def images_of(arguments):
    return pattern("images", [IMAGES, arguments.get("in_chans", 3), arguments["img_size"], arguments["img_size"]]) * 1.5


def parameter(name, shape):
    """Values far from the initial ones, so that a lost or swapped parameter is found."""
    return 0.3 * pattern(name, shape) + (1.0 if name.split(".")[-2:-1] in (["norm"], ["norm1"], ["norm2"]) and name.endswith("weight") else 0.0)


def main():
    import timm
    from timm.layers import resample_abs_pos_embed
    from timm.models import save_for_hf

    reference = {"timm": timm.__version__}
    for name, arguments in MODELS.items():
        model = timm.create_model("vit_tiny_patch16_224", **arguments).eval()
        model.load_state_dict({key: parameter(key, value.shape) for key, value in model.state_dict().items()})
        logits = model(images_of(arguments))
        loss = torch.nn.functional.cross_entropy(logits, torch.arange(IMAGES) % SMALL["num_classes"])
        loss.backward()
        positions = resample_abs_pos_embed(model.pos_embed.detach(), [RESIZED // arguments["patch_size"]] * 2, num_prefix_tokens=model.num_prefix_tokens)
        with tempfile.TemporaryDirectory() as folder:
            save_for_hf(model, folder, model_args=arguments, safe_serialization=True)
            with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
                config = json.load(file)
        reference[name] = {
            "config": config,
            "parameters": {key: list(value.shape) for key, value in model.named_parameters()},
            "logits": logits.tolist(),
            "loss": loss.item(),
            # Each gradient becomes one number: its product with a pattern.
            "gradients": {key: (value.grad * pattern(key + "'", value.shape)).sum().item() for key, value in model.named_parameters()},
            "resized": [positions.flatten(1)[0, :].double().mul(pattern("resized", [positions.numel()]).double()).sum().item(), positions[0, -1, :5].tolist()],
        }
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "timm_reference.json"), "w", encoding="utf-8") as file:
        json.dump(reference, file)
        file.write("\n")


if __name__ == "__main__":
    main()
