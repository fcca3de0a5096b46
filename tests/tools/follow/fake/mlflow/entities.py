# SPDX-License-Identifier: MIT
"""What a request has."""
from typing import NamedTuple


class Metric(NamedTuple):
    key: str
    value: float
    timestamp: int
    step: int


class Param(NamedTuple):
    key: str
    value: str
