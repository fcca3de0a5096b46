# SPDX-License-Identifier: MIT
# What layer_norm and add_layer_norm are compiled into ahead of time, with a bias and without. n rows, d width
from program import Program

ROW, WEIGHT, STATISTIC, EPS = "x[n,d]", "x[d]", "float32[n,1]", "host float32[]"


def forward_without_bias(function, arguments):
    return Program(
        function, arguments, "d", lambda f, *tensors: getattr(f, function)(*tensors[:-1], None, tensors[-1])
    )


def backward_without_bias(function, arguments):
    return Program(function, arguments, "d", lambda f, *tensors: getattr(f, function)(*tensors)[:2])


def with_bias(function, arguments):
    return Program(function + "_bias", arguments, "d", lambda f, *tensors: getattr(f, function)(*tensors))


BACKWARD = (ROW, ROW, WEIGHT, STATISTIC, STATISTIC)
ADD_BACKWARD = (ROW, ROW, ROW, WEIGHT, STATISTIC, STATISTIC)

PROGRAMS = [
    forward_without_bias("layer_norm_forward", (ROW, WEIGHT, EPS)),
    with_bias("layer_norm_forward", (ROW, WEIGHT, WEIGHT, EPS)),
    backward_without_bias("layer_norm_backward", BACKWARD),
    with_bias("layer_norm_backward", BACKWARD),
    forward_without_bias("add_layer_norm_forward", (ROW, ROW, WEIGHT, EPS)),
    with_bias("add_layer_norm_forward", (ROW, ROW, WEIGHT, WEIGHT, EPS)),
    backward_without_bias("add_layer_norm_backward", ADD_BACKWARD),
    with_bias("add_layer_norm_backward", ADD_BACKWARD),
]

# Of the cases of the proof and of the shipped configurations.
GPU_WIDTHS = ["*", "d=1000", "bfloat16:d=768"]
