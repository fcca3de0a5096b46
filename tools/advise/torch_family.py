# SPDX-License-Identifier: MIT
"""Whether a graph is a model of one of Strata's families, and its keys of `model:`."""
import re

# Names of parameters of models that tools/strata import reads, and where they are from.
IMPORTED = ((re.compile(r"(transformer\.)?h\.\d+\.attn\.c_attn\.weight"), "Hugging Face"),
            (re.compile(r"(model\.)?layers\.\d+\.self_attn\.q(kv)?_proj\.weight"), "Hugging Face"),
            (re.compile(r"blocks\.\d+\.attn\.qkv\.weight"), "timm"))  # fmt: skip
NORMS = {"layer_norm": "gpt2", "rms_norm": "llama"}
HEADS = re.compile(r"(\d+)x(\d+) positions, (\d+)(?:/(\d+))? heads of (\d+), (.*)")


def described(grouping):
    """Returns lines that say which family it is, or why it is none."""
    keys, why = keys_of(grouping)
    origin = next((origin for pattern, origin in IMPORTED if any(pattern.fullmatch(name) for name in grouping.graph.parameters.values())), None)
    lines = []
    if keys:
        lines.append("model of a family: model: {" + ", ".join(f"{key}: {value}" for key, value in keys.items()) + "}")
        lines.append("   Read the keys again: factors, rotary bases and epsilons are not compared.")
        if others := sorted({node.op for node in grouping.outside.values()} - {"aten.add"}):
            lines.append(f"   The keys do not say what these nodes outside compute: {', '.join(others)}.")
    else:
        lines.append(f"model of no family: {why}")
    if origin:
        lines.append(f"   Its parameters have names of {origin}, so tools/strata import may read a folder of such a model.")
    return lines


def keys_of(grouping):
    """Returns (keys of model:, ""), or (None, why not)."""
    groups = [(group.op, group.shape) for group in grouping.groups]
    attentions = [HEADS.fullmatch(shape) for op, shape in groups if op == "attention"]
    if not attentions:
        return None, "it has no attention that op attention computes"
    if len({found[0] for found in attentions}) > 1:
        return None, "its layers have attention of different shapes"
    norms = {op.removeprefix("add_") for op, _ in groups if op.removeprefix("add_") in NORMS}
    if len(norms) != 1:
        return None, f"it has {' and '.join(sorted(norms)) or 'no norms'}, expected either layer_norm or rms_norm"
    family = NORMS[norms.pop()]
    _, positions, heads, shared, width_of_head, pattern = attentions[0].groups()
    shared, width = shared or heads, int(heads) * int(width_of_head)
    foreign = sorted({node.op for node in grouping.outside.values() if not node.op.startswith(("aten.", "_operator."))})
    if foreign:
        return None, f"it calls {', '.join(foreign)}, which is no operator of PyTorch"
    if grouping.refused:
        return None, f"a node is like an op of Strata and is none: {next(iter(grouping.refused.values()))}"
    tables = [shape for op, shape in groups if op == "embedding"]
    layers = {"layers": len(attentions), "width": width, "heads": heads}
    inner = inner_width(groups, family, width)
    if inner is None:
        return None, f"no MLP of family {family} was found"
    if any(node.op == "aten.conv2d" for group in grouping.groups for node in group.nodes):
        return vision_keys(grouping, groups, family, layers, inner, pattern)
    if not tables:
        return None, f"it has no embedding of tokens: it is a part of a model, with the norms of family {family}"
    vocabulary = int(tables[0].rpartition(" of ")[2])
    head = [shape for op, shape in groups if op == "linear" and shape.endswith(f"->{vocabulary}")]
    if not head:
        return None, f"it has no output layer of {vocabulary} tokens without a bias"
    if ("rotary" in dict(groups)) != (family == "llama"):
        return None, f"family {family} has {'rotary' if family == 'llama' else 'learned'} positions"
    keys = {"type": "transformer", "family": family, **layers, "feed_forward": inner, "sequence": positions, "vocabulary": vocabulary, "tied": tied(grouping)}
    if shared != heads:
        keys["key_value_heads"] = shared
    if pattern != "causal":
        keys["attention"] = pattern
    return keys, ""


def inner_width(groups, family, width):
    """Returns the width between the two layers of the MLP."""
    if family == "llama":
        return next((int(re.match(r"\d+x(\d+)", shape)[1]) for op, shape in groups if op == "swiglu"), None)
    ends = [re.match(rf"\d+x{width}->(\d+) gelu", shape) for op, shape in groups if op == "linear"]
    return next((int(found[1]) for found in ends if found), None)


def tied(grouping):
    """The output layer and the embedding have one weight."""
    used = [name for name in grouping.graph.parameters if {"embedding", "linear"} <= kinds_of(grouping, name)]
    return str(bool(used)).lower()


def kinds_of(grouping, name):
    users = set(grouping.matcher.users(name))
    return {group.op for group in grouping.groups if users.intersection(group.nodes)}


def vision_keys(grouping, groups, family, layers, inner, pattern):
    if family != "gpt2" or pattern != "full":
        return None, "a vision transformer of Strata has LayerNorm and full attention"
    patch = next(node for group in grouping.groups for node in group.nodes if node.op == "aten.conv2d")
    tensors = grouping.graph.tensors
    image, weight = tensors[patch.arguments["input"]].sizes, tensors[patch.arguments["weight"]].sizes
    if len({*image[2:]}) != 1 or len({*weight[2:]}) != 1:
        return None, "images and patches of Strata are squares"
    classes = next((shape for op, shape in reversed(groups) if op == "linear"), "->0")
    return {"type": "vision_transformer", **layers, "feed_forward": inner, "image_size": image[2], "patch": weight[2], "channels": image[1],
            "classes": re.search(r"->(\d+)", classes)[1]}, ""  # fmt: skip
