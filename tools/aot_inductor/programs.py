# SPDX-License-Identifier: MIT
"""Which functions each op is compiled into: their arguments, and the call of the op's formula file that is traced.

An argument is written "dtype[dimensions]". The dtype x is that of the package (of the activations), `host` in front
means a number that stays in the host's memory. Dimensions are letters or numbers; a letter of `widths` is fixed when the
package is made (or `*`: any), every other letter is free from call to call.
"""
from dataclasses import dataclass
from typing import Callable, Dict, List, Tuple


@dataclass(frozen=True)
class Program:
    function: str
    arguments: Tuple[str, ...]
    widths: str  # its letters
    call: Callable  # (formula module, *tensors) -> tuple of tensors


def _same(name: str) -> Callable:
    """The function of the formula file as it is."""
    return lambda formula, *tensors: getattr(formula, name)(*tensors)


ROW, WIDTH, ONE, EPS = "x[n,d]", "x[d]", "float32[n,1]", "host float32[]"


def _rms_norm() -> List[Program]:
    return [
        Program(name, arguments, "d", _same(name))
        for name, arguments in {
            "rms_norm_forward": (ROW, WIDTH, EPS),
            "rms_norm_backward": (ROW, ROW, WIDTH, ONE),
            "add_rms_norm_forward": (ROW, ROW, WIDTH, EPS),
            "add_rms_norm_backward": (ROW, ROW, ROW, WIDTH, ONE),
        }.items()
    ]


PROGRAMS: Dict[str, List[Program]] = {
    "rms_norm": _rms_norm(),
}
