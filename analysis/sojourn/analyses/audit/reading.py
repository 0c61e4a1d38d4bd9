"""Checks of what was read: doubts about a format, and requests that are missing because their lines were refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from sojourn.model.checks import FAIL, PASS, UNKNOWN, Check
from sojourn.model.formatting import counted, percent, printable
from sojourn.model.frame import Records
from sojourn.model.measures import STATUS_CLASSES
from sojourn.sources.open_requests import OpenedRequests

FEW_REFUSED = 0.01  # of the lines
ENOUGH_REFUSED = 10  # refused lines whose kind can be compared
MORE_OFTEN = 0.1  # a kind of request whose share among the refused lines is larger by this is missing
NO_REQUEST = ("empty_line", "incomplete_line", "damaged_compression", "cut_while_read")
_ELEMENT = r"(?:-|\d+(?:\.\d+)?)"
_LIST = re.compile(rf'(?:^|[\s"=\[]){_ELEMENT}(?:, | : ){_ELEMENT}(?=$|[\s",\]])')
_STATUS = re.compile(r'" ([1-5])\d\d(?: |$)|"status" ?: ?"?([1-5])\d\d\b')


def format_doubts(records: Records) -> tuple[str, ...]:
    """Return what else the times of the logs may be, as a sentence per log."""
    return tuple(
        f"the times of {printable(each.source, 60)} are in doubt: {printable(each.alternative, 200)}"
        for each in records.formats
        if each.alternative
    )


def alternative_of(records: Records) -> str:
    """Return what else the times of the logs may be, as a clause; empty without a doubt."""
    clauses = dict.fromkeys(each.alternative for each in records.formats if each.alternative)
    return "; or ".join(printable(each, 200) for each in clauses)


def format_check(records: Records) -> Check:
    """Return the check of whether the formats of all logs are certain."""
    doubts = format_doubts(records)
    if not doubts:
        return Check("formats", 0, 0, PASS, "the units of all times are certain")
    return Check("formats", len(doubts), 0, FAIL, "; ".join(doubts))


def refused_check(records: Records, accepted: Mapping[str, int]) -> Check:
    """Return the check of whether the refused lines are of requests like the accepted ones.

    Args:
        records: the counts, and the refused lines as far as they were kept.
        accepted: of the accepted requests: requests, several, class/<1 to 5> (see ``Measures.overall``).
    """
    refused = sum(count for reason, count in records.reasons.items() if reason not in NO_REQUEST)
    share = refused / records.read if records.read else 0.0
    lines = [str(each["raw"]) for each in records.rejects if each["reason"] not in NO_REQUEST]
    if share <= FEW_REFUSED:
        return Check("refused", share, FEW_REFUSED, PASS, f"{percent(share)} of the lines were refused")
    if len(lines) < ENOUGH_REFUSED or not accepted["requests"]:
        sentence = f"{counted(refused, 'line was', 'lines were')} refused: too few to compare with the accepted ones"
        return Check("refused", share, FEW_REFUSED, UNKNOWN, sentence)
    kinds = "; ".join(_missing_kinds(lines, accepted))
    if not kinds:
        sentence = f"{percent(share)} of the lines were refused; no kind of request is more frequent among them"
        return Check("refused", share, FEW_REFUSED, PASS, sentence)
    sentence = f"{percent(share)} of the lines were refused, and the figures lack a kind of request: {kinds}"
    return Check("refused", share, FEW_REFUSED, FAIL, sentence)


def _missing_kinds(lines: Sequence[str], accepted: Mapping[str, int]) -> Iterator[str]:
    several = sum(bool(_LIST.search(line)) for line in lines) / len(lines)
    usual = accepted["several"] / accepted["requests"]
    if several > usual + MORE_OFTEN:
        yield f"{percent(several)} of these lines list several attempts or an internal redirect, {_against(usual)}"
    classes = [match[1] or match[2] for line in lines if (match := _STATUS.search(line))]
    if len(classes) < ENOUGH_REFUSED:
        return
    for each in STATUS_CLASSES:
        share, usual = classes.count(str(each)) / len(classes), accepted[f"class/{each}"] / accepted["requests"]
        if share > usual + MORE_OFTEN:
            yield f"{percent(share)} of these lines have status {each}xx, {_against(usual)}"


def _against(usual: float) -> str:
    return f"against {percent(usual)} of the accepted ones"


def checks_of(requests: OpenedRequests) -> tuple[Check, ...]:
    """Return the checks of what was read for opened requests."""
    overall = requests.once("overall", requests.measures.overall)
    return (format_check(requests.records), refused_check(requests.records, overall))


def doubts_of(requests: OpenedRequests) -> tuple[str, ...]:
    """Return the sentences that every result of these requests has to carry."""
    refused = sum(requests.records.reasons.values()) > FEW_REFUSED * requests.records.read
    checks = checks_of(requests) if refused else (format_check(requests.records),)
    return (*(check.sentence for check in checks if check.verdict == FAIL), *requests.records.apart)
