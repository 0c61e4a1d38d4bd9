"""The unit of a duration that has none: from its values, how they are written, and the instants of their lines.

A unit is refuted where requests would have taken longer than the log, or would have ended in another order than their
lines. Of those that remain the plausible one is taken: its median is nearest to 50 ms, on a logarithmic scale.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from sojourn.readers.formats.fields import UNIT_NAMES, UNITS

USUAL_S = 0.05
PLAUSIBLE_S = (2e-4, 10.0)  # medians of another unit that is worth a word
SHORT_S = 1.5  # a median below, with three digits behind the point, is hardly in ms
MOST, DISORDERED = 0.5, 0.05
LATE_S = 2.0
FEW_LINES = 20  # of fewer, nothing follows from the instants
NGINX_SPANS, SPANS = 10, 1  # medians longer than so many times the log refute a unit
WHOLE, NGINX = re.compile(r"\d+"), re.compile(r"\d+\.\d{1,3}")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
ROUNDING_US = 2_000
_COARSEST_FIRST = ("s", "ms", "us", "ns")


@dataclass(frozen=True)
class Guess:
    """A unit that was deduced.

    Attributes:
        unit: of ``UNITS``.
        certain: no other unit is plausible.
        alternative: another plausible unit; empty: none.
    """

    unit: str
    certain: bool = True
    alternative: str = ""

    def doubt(self, what: str) -> str:
        """Return a clause on the other unit; empty without one. ``what``: the value, as the subject of a clause."""
        if not self.alternative:
            return ""
        factor = UNITS[self.alternative] / UNITS[self.unit]
        times = f"{factor:,g} times" if factor > 1 else f"1/{1 / factor:,g}"
        return f"{times} of it if {what} is in {UNIT_NAMES[self.alternative]}, not {UNIT_NAMES[self.unit]}"


@dataclass(frozen=True)
class Instants:
    """Instants of the lines of a sample.

    Attributes:
        values: unix s, in the order of the lines; None: the line has none.
        of_start: they are of the beginning of the request, not of its end.
    """

    values: Sequence[float | None]
    of_start: bool = False


def taken_as(what: str, name: str, guess: Guess) -> str:
    """Return a sentence on a unit that was deduced. ``name``: of the duration, as ``--log-format`` takes it."""
    unit, other = UNIT_NAMES[guess.unit], guess.alternative
    doubt = f", though {UNIT_NAMES[other]} is plausible" if other else ""
    return f"{what} is taken to be in {unit}{doubt}: --log-format {name}={other or guess.unit} sets it."


def guessed_unit(
    values: Sequence[str], instants: Instants, *, by_nginx: bool = False, candidates: Sequence[str] = ()
) -> Guess | None:
    """Return the unit of durations; None if there is no value, or every unit is refuted.

    Args:
        values: the numbers of the lines as texts; anything else is no value.
        instants: of the same lines.
        candidates: the units; empty: those that such numbers may have.
        by_nginx: the name is a variable of nginx, which writes seconds with three digits behind the point.
    """
    numbers = [float(value) if _NUMBER.fullmatch(value) else None for value in values]
    some = [value for value in numbers if value]
    texts = [value for value in values if _NUMBER.fullmatch(value)]
    whole = all(map(WHOLE.fullmatch, texts))
    if not some:  # whole numbers that are all 0 have no unit, and say nothing
        return None if whole and len(texts) >= FEW_LINES else Guess("s")
    middle = max(median(value for value in numbers if value is not None), 0.5) if whole else median(some)
    in_nginx_form = not whole and _is_written_by_nginx(texts)
    candidates = candidates or (_COARSEST_FIRST if whole else _COARSEST_FIRST[:2])
    spans = NGINX_SPANS if by_nginx and in_nginx_form else SPANS
    fitting = [unit for unit in candidates if not _is_refuted(numbers, UNITS[unit] / 1e6, instants, spans)]
    if not fitting:
        return None
    is_short = middle <= (PLAUSIBLE_S[1] if by_nginx else SHORT_S if in_nginx_form else 0.0)
    if not whole and "s" in fitting and (is_short or (by_nginx and in_nginx_form)):
        return Guess("s") if is_short else Guess("s", certain=False, alternative="ms")
    best, *others = sorted(fitting, key=lambda unit: abs(math.log10(middle * UNITS[unit] / 1e6 / USUAL_S)))
    plausible = [unit for unit in others if PLAUSIBLE_S[0] <= middle * UNITS[unit] / 1e6 <= PLAUSIBLE_S[1]]
    return Guess(best, not plausible, plausible[0] if plausible else "")


def _is_written_by_nginx(texts: Sequence[str]) -> bool:
    """Return whether numbers have three digits behind the point, or would have without the zeros at their end."""
    if not all(NGINX.fullmatch(text) or WHOLE.fullmatch(text) for text in texts):
        return False
    return len(texts) < FEW_LINES or sum(text[-4:-3] == "." for text in texts) > MOST * len(texts)


def part_unit(
    texts: Sequence[str], instants: Instants, whole: tuple[Sequence[str], str] | None, *, by_nginx: bool
) -> Guess | None:
    """Return the unit of a duration that is part of another one: a unit in which it is no longer than that.

    Args:
        texts: the numbers of the lines, as for ``guessed_unit``.
        instants: of the same lines.
        whole: the numbers and the unit of the duration it is a part of; None: it is no part.
        by_nginx: as for ``guessed_unit``.
    """
    guess = guessed_unit(texts, instants, by_nginx=by_nginx)
    if guess is None and by_nginx:  # lists of attempts alone
        return Guess("s")
    if whole is None or guess is None:
        return guess
    return Guess(guess.unit) if _is_part(texts, guess.unit, *whole) else Guess(whole[1])


def _is_part(texts: Sequence[str], unit: str, whole: Sequence[str], whole_unit: str) -> bool:
    """Return whether durations are no longer than those they are a part of, give or take the rounding."""
    pairs = [(float(part) * UNITS[unit], float(all_of_it) * UNITS[whole_unit])
             for part, all_of_it in zip(texts, whole, strict=True)
             if _NUMBER.fullmatch(part) and _NUMBER.fullmatch(all_of_it)]  # fmt: skip
    longer = sum(part > all_of_it + max(ROUNDING_US, UNITS[whole_unit]) for part, all_of_it in pairs)
    return longer <= DISORDERED * len(pairs)


def _is_refuted(numbers: Sequence[float | None], unit: float, instants: Instants, spans: float) -> bool:
    pairs = [(at, value * unit) for at, value in zip(instants.values, numbers, strict=True)
             if at is not None and value is not None]  # fmt: skip
    if len(pairs) < FEW_LINES:
        return False
    first = min(at for at, _ in pairs)
    log = max(max(at for at, _ in pairs) - first, 1.0)
    is_long = median(took for _, took in pairs) > spans * log
    if instants.of_start:
        return is_long or not is_ordered(pairs)
    return is_long and sum(at - took < first - 1.0 for at, took in pairs) > MOST * len(pairs)


def is_ordered(pairs: Sequence[tuple[float, float]]) -> bool:
    """Return whether requests, as (start, duration), end in the order of their lines, give or take a second's stamp."""
    latest, disordered = 0.0, 0
    for start, took in pairs:
        end = start + took
        disordered += end + LATE_S < latest
        latest = max(latest, end)
    return disordered <= DISORDERED * len(pairs)
