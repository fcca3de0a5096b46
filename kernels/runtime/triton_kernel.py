# SPDX-License-Identifier: MIT
"""TritonKernel: a Triton function and what is compiled of it: element types, constants, alignment, and the grid."""
import dataclasses
import itertools

# Arguments and constants are multiples of this where a specialization promises it: 16-byte accesses follow.
ALIGNMENT = 16


def ceil_div(value, divisor):
    return (value + divisor - 1) // divisor


@dataclasses.dataclass(frozen=True)
class Specialization:
    """One cubin."""

    types: dict  # argument -> "*bf16", "i32", ...
    constants: dict
    aligned: bool
    warps: int
    stages: int


@dataclasses.dataclass(frozen=True)
class TritonKernel:
    """`fits` and `grid` are expressions over arguments, sizes and constants that mean the same in Python and in C++;
    they may call min, max and ceil_div. The launcher takes the first choice that fits."""

    function: object
    arguments: dict  # those of the function that are no constants, in order: "*T" points to elements of type T
    types: list  # what the letters stand for: [{"T": "bf16"}, ...]
    choices: list  # constants of each specialization; besides them `warps`, `stages`, `aligned`, `only` (values of T)
    grid: tuple
    fits: str = "true"
    sizes: tuple = ()  # numbers that only `fits` and `grid` read
    aligned: tuple = ()  # the arguments that an aligned choice expects as multiples of ALIGNMENT (bytes, for pointers)

    def specializations(self):
        """In the order in which they are tried."""
        for choice, letters in itertools.product(self.choices, self.types):
            if letters["T"] not in choice.get("only", (letters["T"],)):
                continue
            types = {name: "*" + letters.get(kind[1:], kind[1:]) if kind[0] == "*" else kind for name, kind in self.arguments.items()}
            constants = {name: value for name, value in choice.items() if name not in ("warps", "stages", "aligned", "only")}
            yield Specialization(types, constants, choice.get("aligned", True), choice["warps"], choice.get("stages", 3))

    def evaluate(self, expression, values):
        names = {"true": True, "min": min, "max": max, "ceil_div": ceil_div}
        return eval(expression, {"__builtins__": {}}, {**names, **values})  # written in this repository


ALL_TYPES = [{"T": "bf16"}, {"T": "fp32"}, {"T": "fp16"}]
