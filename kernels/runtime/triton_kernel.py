# SPDX-License-Identifier: MIT
"""TritonKernel: a Triton function with the element types, constants and alignments to compile it for, and its grid."""
import dataclasses
import itertools

# Specializations for aligned arguments assume that pointers (in bytes) and sizes are multiples of 16, which allows
# 16-byte loads and stores.
ALIGNMENT = 16

# The keys of a choice that are no constants.
OPTIONS = ("warps", "stages", "registers", "aligned", "only")


def ceil_div(value, divisor):
    return (value + divisor - 1) // divisor


@dataclasses.dataclass(frozen=True)
class Specialization:
    """One compiled variant of a kernel: a cubin, and PTX for other GPUs."""

    types: dict  # argument -> "*bf16", "i32", ...
    constants: dict
    aligned: bool
    warps: int
    stages: int
    registers: int = 0  # most registers of a thread; 0: as many as the compiler wants


@dataclasses.dataclass(frozen=True)
class TritonKernel:
    """`fits` and `grid` are expressions over arguments, sizes and constants. They mean the same in Python and in C++
    and may call min, max and ceil_div. The launcher uses the first choice whose `fits` is true."""

    function: object
    arguments: dict  # the arguments that are no constants, in order; "*T" is a pointer to elements of type T
    choices: list  # the constants of each specialization, and the numbers of OPTIONS; `only` are values of T
    grid: tuple
    types: tuple | list = ({"T": "bf16"}, {"T": "fp32"}, {"T": "fp16"})  # the types of the letters; every choice is compiled for every dict
    fits: str = "true"
    sizes: tuple = ()  # numbers that only `fits` and `grid` use
    aligned: tuple = ()  # arguments that must be multiples of ALIGNMENT for an aligned choice (in bytes for pointers)
    signed: tuple = ()  # arguments of type i32 that may be negative
    named: dict = dataclasses.field(default_factory=dict)  # argument or size -> {name: number}; launches refuse other numbers
    portable: bool = True  # compiled for other GPUs than Hopper too

    def specializations(self):
        """Yields the specializations in the order in which the launcher tries them."""
        for choice, letters in itertools.product(self.choices, self.types):
            if letters["T"] not in choice.get("only", (letters["T"],)):
                continue
            types = {name: "*" + letters.get(kind[1:], kind[1:]) if kind[0] == "*" else kind for name, kind in self.arguments.items()}
            constants = {name: value for name, value in choice.items() if name not in OPTIONS}
            yield Specialization(types, constants, choice.get("aligned", True), choice["warps"], choice.get("stages", 3), choice.get("registers", 0))

    def expected(self, argument):
        """Returns the numbers that a named argument may have, as errors list them: "silu (4), gelu_tanh (2)"."""
        return ", ".join(f"{name} ({number})" for name, number in self.named[argument].items())

    def evaluate(self, expression, values):
        names = {"true": True, "min": min, "max": max, "ceil_div": ceil_div}
        return eval(expression, {"__builtins__": {}}, {**names, **values})  # written in this repository
