# SPDX-License-Identifier: MIT
"""What a demo claims: each claim has what was expected and what came, and holds or not."""
import dataclasses
import math

HOLDS, FAILS, NOT_SHOWN, SEEN = "holds", "does not hold", "not shown here", "seen"


@dataclasses.dataclass(frozen=True)
class Claim:
    state: str
    says: str
    expected: str = ""
    came: str = ""

    def __str__(self):
        if self.state == SEEN:
            return f"{self.state}: {self.says}"
        if self.state == NOT_SHOWN:
            return f"{self.state}: {self.says}; {self.came}"
        return f"{self.state}: {self.says}\n    expected: {self.expected}\n    came: {self.came}"


def claim(says, holds, expected, came):
    return Claim(HOLDS if holds else FAILS, says, str(expected), str(came))


def not_shown(says, why):
    """A claim for which this machine lacks something. It does not count as passed."""
    return Claim(NOT_SHOWN, says, came=why)


def seen(says):
    """A figure that no code checks, such as a time on a machine that other programs use too."""
    return Claim(SEEN, says)


def equal(says, expected, came):
    return claim(says, expected == came, plain(expected), plain(came))


def close(says, expected, came, within, each="step"):
    """Claims that two series have as many numbers, which differ by at most `within`. `each` is what one number belongs to."""
    if len(expected) != len(came) or not expected:
        return claim(says, False, f"a number for each {each}, {len(expected)}", f"{len(came)} numbers")
    # A number that is not finite is null in metrics.jsonl.
    apart = [math.inf if None in (a, b) or math.isnan(a - b) else abs(a - b) for a, b in zip(expected, came)]
    worst = max(range(len(apart)), key=apart.__getitem__)
    return claim(says, apart[worst] <= within, f"at most {within:g} apart at each of {len(apart)} {each}s",
                 f"at most {apart[worst]:.2g} apart, at {each} {worst + 1}: {expected[worst]} and {came[worst]}")


def falling(says, values):
    """Claims that the values of {name: number} fall from each to the next."""
    numbers = list(values.values())
    return claim(says, all(a > b for a, b in zip(numbers, numbers[1:])), " > ".join(values),
                 ", ".join(f"{name} {plain(value)}" for name, value in values.items()))


def plain(value):
    """Large whole numbers are shown with commas."""
    return f"{value:,}" if type(value) is int else value
