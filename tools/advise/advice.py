# SPDX-License-Identifier: MIT
"""What a rule returns, and how a list of it is ranked and printed."""
import shlex
import typing


class Advice(typing.NamedTuple):
    """A change of the configuration. `milliseconds` is how much shorter a step is predicted to be, and `bytes` how much less
    memory a rank is predicted to need (negative: more); None means unknown. `changes` says what else the training notices: the
    trials of --apply leave such advice out. A run that does not fit cannot be trained, so advice with `fits` comes first."""
    rule: str
    overrides: tuple
    milliseconds: typing.Optional[float]
    bytes: typing.Optional[int]
    reason: str
    changes: str = ""
    fits: bool = False


def ranked(advices):
    """Returns what lets the run fit first, then the largest gain first, and unknown gains last."""
    return sorted(advices, key=lambda advice: (not advice.fits, advice.milliseconds is None, -(advice.milliseconds or 0), advice.rule))


def milliseconds_text(value):
    return "unknown" if value is None else f"{value:.2f} ms"


def bytes_text(value):
    return "unknown" if value is None else f"{-value / 2**20:+.1f} MiB"


def lines(advices, step, of="a step"):
    """Yields the lines that show ranked advices; `step` is the time of a step now, or of what `of` names, in milliseconds."""
    for number, advice in enumerate(advices, 1):
        share = f" of {step:.2f} ms" if advice.milliseconds is not None and step else ""
        yield f"{number}. {advice.rule}: gain {milliseconds_text(advice.milliseconds)}{share} {of}, memory {bytes_text(advice.bytes)}"
        yield f"   {advice.reason}"
        if advice.overrides:
            yield f"   {' '.join(map(shlex.quote, advice.overrides))}"
        if advice.changes:
            yield f"   It also changes the training: {advice.changes}."
