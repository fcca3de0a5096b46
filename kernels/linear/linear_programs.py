# SPDX-License-Identifier: MIT
# Functions of linear that are compiled ahead of time. Matrix products are calls into LibTorch; Inductor generates the
# code around them. n rows, i input width, o output width
from program import Program, numbers, same

INPUT, WEIGHT, BIAS, OUTPUT = "x[n,i]", "x[o,i]", "x[o]", "x[n,o]"
# Widths of the only activation in the shipped configurations.
GELU_TANH_WIDTHS = ("*", "bfloat16:o=3072")


def forward(kind, **widths):
    results = slice(1) if kind == "relu" else slice(2)  # the backward of relu needs only y
    return Program(
        f"linear_{kind}", (INPUT, WEIGHT, BIAS), "o", lambda f, *tensors: f.linear_rows(*tensors, kind)[results], **widths
    )


def backward(kind, **widths):
    return Program(
        f"{kind}_gradient", (OUTPUT, OUTPUT), "o", lambda f, *tensors: f.activation_gradient(*tensors, kind), **widths
    )


PROGRAMS = [
    Program("linear_none", (INPUT, WEIGHT), "", lambda f, x, weight: f.linear(x, weight, None, "none")),
    Program("linear_none_bias", (INPUT, WEIGHT, BIAS), "", lambda f, *tensors: f.linear(*tensors, "none")),
    forward("gelu"),
    backward("gelu"),
    forward("gelu_tanh", gpu_widths=GELU_TANH_WIDTHS),
    backward("gelu_tanh", gpu_widths=GELU_TANH_WIDTHS),
    forward("relu"),
    backward("relu"),
    same("bias_gradient", (OUTPUT,), "o", gpu_widths=("*", "bfloat16:o=768", "bfloat16:o=2304")),
    same("input_gradient", (OUTPUT, WEIGHT), ""),
    same("weight_gradient", (OUTPUT, INPUT), ""),
]


def functions_of_product(shape):  # "16x768->3072 gelu_tanh bias"
    kind, bias = next((word for word in shape.split()[1:] if word != "bias"), "none"), shape.endswith(" bias")
    width = {"o": numbers(shape)[2]}
    functions = {"input_gradient": {}, "weight_gradient": {}}
    if kind != "none":
        return {**functions, f"linear_{kind}": width, f"{kind}_gradient": width}
    if bias:
        return {**functions, "linear_none_bias": {}, "bias_gradient": width}
    return {**functions, "linear_none": {}}


CALLED_BY = {"linear": functions_of_product}

GPU_WIDTHS = ["*"]
