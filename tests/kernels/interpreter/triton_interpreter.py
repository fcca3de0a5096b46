# SPDX-License-Identifier: MIT
"""Runs the kernels of a `_triton.py` file in Triton's interpreter on a CPU, and chooses a specialization as the
launcher does."""
import builtins
import functools
import importlib
import os
import sys
import types

os.environ["TRITON_INTERPRET"] = "1"  # read when triton.jit decorates a function

import numpy
import torch
import triton.language as tl
import triton.runtime.interpreter

sys.path.insert(0, os.getcwd())  # the root of the checkout: `kernels.<op>.<op>_triton` is a module

ELEMENTS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64, "i64": torch.int64, "i32": torch.int32}


class _IntMeta(type):
    def __instancecheck__(cls, value):
        return isinstance(value, builtins.int)


class _Int(builtins.int, metaclass=_IntMeta):
    """The interpreter calls int() on arrays with one element, which numpy 2.4 refuses."""

    def __new__(cls, value=0, *rest):
        return builtins.int(value.item() if isinstance(value, numpy.ndarray) else value, *rest)


triton.runtime.interpreter.int = _Int


_patch_lang = triton.runtime.interpreter._patch_lang


def _patch_all(_):
    """Patches what a kernel and the functions that it calls use, once for each launch."""
    return _patch_lang(types.SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))


# The interpreter would patch triton.language again for each call of a function by a kernel: a fifth of the time.
triton.runtime.interpreter._patch_lang = _patch_all
triton.runtime.interpreter.InterpretedFunction.__call__ = lambda function, *arguments, **named: function.rewrite()(*arguments, **named)


def _widened(handle):
    """Returns the operand of a matrix product in fp32. The interpreter stores bf16 as the integers of its bits and
    would multiply those."""
    if handle.dtype.scalar != tl.bfloat16:
        return handle
    return triton.runtime.interpreter.TensorHandle((handle.data.astype(numpy.uint32) << 16).view(numpy.float32), tl.float32)


_create_dot = triton.runtime.interpreter.InterpreterBuilder.create_dot
triton.runtime.interpreter.InterpreterBuilder.create_dot = lambda builder, a, b, *rest: _create_dot(builder, _widened(a), _widened(b), *rest)

# maxnum returns the number if one operand is a NaN. The interpreter would return the NaN, as maximum does.
triton.runtime.interpreter.InterpreterBuilder.create_maxnumf = lambda builder, a, b: builder.binary_op(a, b, numpy.fmax)


def _reduce_slices(reduction, inputs):
    """Combines whole slices. The interpreter would combine one element after the other."""
    (values,) = inputs
    slices = [reduction.to_tensor(piece, values.dtype) for piece in numpy.moveaxis(values.handle.data, reduction.axis, 0)]
    return [functools.reduce(reduction.combine_fn.fn, slices)]


triton.runtime.interpreter.ReduceOps.generic_reduce = _reduce_slices


def kernels(module):
    """The kernels of kernels/<module>_triton.py."""
    return importlib.import_module("kernels." + module.replace("/", ".") + "_triton").KERNELS


def formula(op):
    """The module kernels/<op>/<op>.py."""
    return importlib.import_module(f"kernels.{op}.{op}")


def matches(tensor, kind):
    return tensor is None or tensor.dtype == ELEMENTS[kind[1:]]


def choose(kernel, arguments):
    """Returns the specialization that the generated launcher uses for these arguments: the first that fits."""
    for name, numbers in kernel.named.items():
        if arguments[name] not in numbers.values():
            raise ValueError(f"{name} is {arguments[name]}, for which this kernel has no branch, expected {kernel.expected(name)}")
    whole = all(
        arguments[name] is None or (arguments[name].data_ptr() if isinstance(arguments[name], torch.Tensor) else arguments[name]) % 16 == 0
        for name in kernel.aligned)
    numbers = {name: value for name, value in arguments.items() if not isinstance(value, torch.Tensor)}
    for specialization in kernel.specializations():
        typed = all(matches(arguments[name], kind) for name, kind in specialization.types.items() if kind[0] == "*")
        if typed and (whole or not specialization.aligned) and kernel.evaluate(kernel.fits, {**numbers, **specialization.constants}):
            return specialization
    raise ValueError(f"nothing was compiled for {numbers}")


def launch(kernel, **arguments):
    """Launches a kernel and returns the specialization that ran. Tensors may be None, as undefined ones in C++."""
    specialization = choose(kernel, arguments)
    numbers = {name: value for name, value in arguments.items() if not isinstance(value, torch.Tensor)}
    grid = tuple(kernel.evaluate(dimension, {**numbers, **specialization.constants}) for dimension in kernel.grid)
    given = []
    for name, kind in kernel.arguments.items():
        value = arguments[name]
        given.append(torch.empty(1, dtype=ELEMENTS[specialization.types[name][1:]]) if value is None and kind[0] == "*" else value)
    constants = {name: value for name, value in specialization.constants.items() if name in kernel.function.arg_names}
    if all(grid):
        kernel.function[grid](*given, **constants)
    return specialization
