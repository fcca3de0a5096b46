# SPDX-License-Identifier: MIT
# Functions of attention that are compiled ahead of time for GPUs: the templates of PyTorch's FlexAttention, on packed
# tensors. b rows, s tiles of 128 positions, k key and value heads, g query heads of each of them, e = g + 2, d head width
import math
import re
from functools import partial
from itertools import product

from program import Program

TILE = 128
QKV, Y = "x[b,s,128,k,e,d]", "x[b,s,128,k,g,d]"
LOGSUMEXP = "float32[b,k,g,s,128]"  # in base 2
# For each tile of queries: the number of tiles of keys that it sees partly, their indices, the number of those that it sees
# fully, and their indices. Then the same for each tile of keys. r is 1, or b.
LISTS = ("int32[r,s]", "int32[r,s,s]") * 4

# The masks that partial tiles evaluate, and their tensors: the lowest and highest query - key and the number of
# positions; the number of the mask of each tile, and masks of a bit for each pair; the document of each position.
BAND, TILE_MASK, BITS, DOCUMENT = "int32[3]", "int32[s,s]", "int32[m,128,4]", "int32[b,s,128]"
MASKS = {
    "band": (BAND,),
    "band_documents": (BAND, DOCUMENT),
    "bits": (TILE_MASK, BITS),
    "bits_documents": (TILE_MASK, TILE_MASK, BITS, DOCUMENT),  # the second one is for pairs of two documents
}
TERMS = {"alibi": "float32[k,g]", "softcap": "float32[1]", "sinks": "x[k,g]"}


def at(tensor, *places):
    import torch

    return torch.ops.aten.index.Tensor(tensor, list(places))  # brackets would not trace


def near(b, h, query, key, lowest, highest, positions):
    return (query - key >= lowest) & (query - key <= highest) & (key < positions)


def near_in_document(b, h, query, key, lowest, highest, positions, document):
    return near(b, h, query, key, lowest, highest, positions) & (at(document, b, query) == at(document, b, key))


def bit(masks, mask, query, key):
    return ((at(masks, mask, query & 127, (key >> 5) & 3) >> (key & 31)) & 1) != 0


def bit_of_tile(b, h, query, key, tile_mask, masks):
    return bit(masks, at(tile_mask, query >> 7, key >> 7), query, key)


def bit_of_documents(b, h, query, key, same, other, masks, document):
    import torch

    together = at(document, b, query) == at(document, b, key)
    return bit(masks, torch.where(together, at(same, query >> 7, key >> 7), at(other, query >> 7, key >> 7)), query, key)


def mask_of(name, tensors):
    """Returns the mask function and the tensors that it reads."""
    tensors = [viewed(tensor, tensor.size(0), tensor.size(1) * TILE) if text == DOCUMENT else tensor for text, tensor in zip(MASKS[name], tensors)]
    if name.startswith("band"):
        tensors[:1] = [tensors[0].select(0, i) for i in range(3)]
    return {"band": near, "band_documents": near_in_document, "bits": bit_of_tile, "bits_documents": bit_of_documents}[name], tensors


def score_of(terms):
    """Returns what changes a score, and the gradient of that. Both also get the tensors of the terms."""
    import torch

    def score_mod(score, b, h, query, key, *tensors):
        if "softcap" in terms:
            score = tensors[-1] * torch.tanh(score / tensors[-1])
        if "alibi" in terms:
            score = score - at(tensors[0], h) * (query - key).abs()
        return score

    def gradient(score, b, h, query, key, grad, *tensors):
        if "softcap" in terms:
            grad = grad * (1 - torch.tanh(score / tensors[-1]) ** 2)
        return [grad, *[None] * (4 + len(tensors))]  # and none for its places and tensors

    return score_mod, gradient


def viewed(tensor, *shape):
    """Returns a contiguous tensor in another shape. reshape() would make rules for free sizes."""
    return tensor.as_strided(shape, [math.prod(shape[i + 1 :]) for i in range(len(shape))])


def heads_of(rows):
    """[b,s,128,k,e,d] -> [b, k * e, s * 128, d]"""
    b, s, _, k, e, d = rows.shape
    return viewed(rows, b, s * TILE, k * e, d).transpose(1, 2)


class Call:
    """What forward and backward have in common. `tensors` are the lists, the tensors of the mask, and the tensors of the terms."""

    def __init__(self, mask, terms, qkv, tensors):
        b, s, _, k, e, d = qkv.shape
        by_head = heads_of(qkv)
        heads = k * (e - 2)
        self.qkv = by_head.narrow(1, 0, heads), by_head.narrow(1, heads, k), by_head.narrow(1, heads + k, k)
        lists = [each.unsqueeze(1) for each in tensors[: len(LISTS)]]
        tensors = tensors[len(LISTS) :]
        sees, self.mask_tensors = mask_of(mask, tensors[: len(MASKS[mask])])
        term_tensors = dict(zip(terms, tensors[len(MASKS[mask]) :]))
        self.sinks = viewed(term_tensors.pop("sinks"), heads, 1).float() / math.log(2) if "sinks" in terms else None
        self.score_tensors = [viewed(term_tensors[name], heads) if name == "alibi" else term_tensors[name].select(0, 0) for name in term_tensors]
        self.score, self.gradient = score_of(terms)
        self.block_mask = (s * TILE, s * TILE, *lists, TILE, TILE, sees)
        self.scale = d**-0.5

    def options(self, sizes):
        return {
            "PRESCALE_QK": False, "ROWS_GUARANTEED_SAFE": False, "BLOCKS_ARE_CONTIGUOUS": False, "WRITE_DQ": True,
            "OUTPUT_LOGSUMEXP": True, "OUTPUT_MAX": False, "BACKEND": "TRITON", "IS_DIVISIBLE": True,
            "RESULT_IN_FP32": self.sinks is not None, **sizes,
        }  # fmt: skip


def forward_sizes(dtype, head_width):
    """Returns the sizes of blocks: of those in 16 bits, the fastest of seven on an H200 that spill few registers."""
    wide = head_width > 64
    if dtype.itemsize == 4:  # no tensor core multiplies fp32 without rounding it
        queries, keys, stages = (16, 16, 1) if wide else (32, 32, 2)
    else:
        queries, keys, stages = (64, 32, 2) if head_width > 128 else (64, 64, 3)
    return {"BLOCK_M": queries, "BLOCK_N": keys, "num_stages": stages, "num_warps": 4}


def backward_sizes(dtype, head_width):
    if dtype.itemsize == 4:
        size, stages = (16, 1) if head_width > 64 else (32, 1)
    else:
        size, stages = (32, 2) if head_width > 128 else (64, 2) if head_width > 64 else (64, 3)
    return {**dict.fromkeys(("BLOCK_M1", "BLOCK_N1", "BLOCK_M2", "BLOCK_N2"), size), "num_stages": stages, "num_warps": 4}


def forward(mask, terms, qkv, *tensors):
    import torch

    call = Call(mask, terms, qkv, tensors)
    b, s, _, k, e, d = qkv.shape
    y, logsumexp, _ = torch.ops.higher_order.flex_attention(
        *call.qkv, call.score, call.block_mask, call.scale, call.options(forward_sizes(qkv.dtype, d)), tuple(call.score_tensors), tuple(call.mask_tensors)
    )
    y = y.transpose(1, 2)
    if call.sinks is None:
        return y, logsumexp
    with_sinks = torch.logaddexp2(logsumexp, call.sinks)
    share = torch.exp2(logsumexp - with_sinks)  # what the sinks leave to the keys
    return (y * share.transpose(1, 2).unsqueeze(3)).to(qkv.dtype), with_sinks


def backward(mask, terms, grad_y, qkv, y, logsumexp, *tensors):
    import torch

    call = Call(mask, terms, qkv, tensors)
    b, s, _, k, e, d = qkv.shape
    # In 16 bits FlexAttention would round the product of y and grad_y.
    y, grad_y, logsumexp = heads_of(y).float(), heads_of(grad_y), viewed(logsumexp, b, k * (e - 2), s * TILE)
    *grads, _ = torch.ops.higher_order.flex_attention_backward(
        *call.qkv, y, logsumexp, grad_y, None, call.score, call.gradient, call.block_mask, call.scale,
        call.options(backward_sizes(qkv.dtype, d)), tuple(call.score_tensors), tuple(call.mask_tensors),
    )  # fmt: skip
    grad_qkv = torch.cat([grad.transpose(1, 2) for grad in grads], 2)
    if call.sinks is None:
        return grad_qkv
    share = torch.exp2(call.sinks - logsumexp)
    grad_sinks = -(share * (y * grad_y).sum(3)).sum((0, 2))
    return grad_qkv, grad_sinks


def programs():
    for mask, *chosen in product(MASKS, (False, True), (False, True), (False, True)):
        terms = tuple(name for name, there in zip(TERMS, chosen) if there)
        name = "_".join((mask, *terms))
        common = (*LISTS, *MASKS[mask], *(TERMS[term] for term in terms))
        shipped = {"gpu_widths": SHIPPED} if name == "band" else {}
        for function, inputs in ((forward, (QKV,)), (backward, (Y, QKV, Y, LOGSUMEXP))):
            yield Program(
                f"{function.__name__}_{name}", (*inputs, *common), "egd",
                lambda _, *tensors, call=partial(function, mask, terms): call(*tensors), exact=True, **shipped,
            )  # fmt: skip


GPU_WIDTHS = ["*"]  # none: see `exact`
SHIPPED = ("bfloat16:e=3,g=1,d=64", "bfloat16:e=6,g=4,d=64", "bfloat16:e=6,g=4,d=128")  # GPT-2 124M, Llama 1B and 8B
PROGRAMS = list(programs())

HEADS = r"\d+x\d+ positions, (\d+)(?:/(\d+))? heads of (\d+)"
SHAPE = re.compile(HEADS + r", (.*?)(, alibi)?(, softcap [^,]+)?(, sinks)?(?:, deterministic)?")


def attention(shape):  # "8x1024 positions, 32/8 heads of 64, causal & window(9), alibi, softcap 30, sinks, deterministic"
    heads, key_value_heads, width, pattern, *chosen = SHAPE.fullmatch(shape).groups()
    words = set(re.findall("[a-z]+", pattern))
    if int(width) % 16 or int(width) > 256 or "queries" in words:
        return {}  # the level refuses these widths, and queries that are a part of each row
    mask = "bits" if "|" in pattern or words - {"full", "causal", "window", "documents"} else "band"
    name = "_".join([mask, *["documents"] * ("documents" in words), *(name for name, there in zip(TERMS, chosen) if there)])
    group = int(heads) // int(key_value_heads or heads)
    return dict.fromkeys((f"forward_{name}", f"backward_{name}"), {"e": group + 2, "g": group, "d": int(width)})


CALLED_BY = {"attention": attention}
