"""The study as a Markdown page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from systems.study import REFUSED, RIGHT, WRONG, Finding, Statement

INTRODUCTION = """\
# Kinds of systems

Each kind of system is simulated with the truth known, and its log is analysed like any other. *Right*: the statement
agrees with the truth. *Refused*: nothing is said, or it is said with a caution. *Wrong*: a statement without a caution
that the truth contradicts. `PYTHONPATH=lab python -m systems --publish docs/reference` writes this page;
`python -m systems --kind NAME` shows every statement on one kind in full.

The limits: utilisation within 10 points; the response time after a change within 15 % or 5 ms (mean) and 25 % (p99) of
a simulation of the changed system; workers needed for 95 % of the waits at most 0.1 s within 1, one backend or 20 %; an
inferred mean wait within 5 % of the response time or 3 ms, a lower bound of it at most 2 % above.

"""
SHARED = """\
Two to ten workers on fewer cores, one to three backends on their own cores or on one dependency, all or a part of each
service there, at a load of 45 to 90 % (`python -m systems --contended N`).
"""
MOST = 90  # characters of a sentence in the table


def page(findings: Sequence[Finding], contended: str) -> str:
    """Return the page: the totals, two tables of judgements, and what is said of each kind.

    Args:
        findings: of each kind.
        contended: the table of the systems that share a resource; empty: without it.
    """
    measured, plain = ([(each, getattr(each, name)) for each in findings] for name in ("statements", "plain"))
    lines = [
        *_judgements(measured),
        "",
        "## From a plain log",
        "",
        "The same logs without what the app reports: the queue is inferred.",
        "",
        *_judgements(plain),
        "",
        *(["## Shared resources", "", SHARED, contended] if contended else []),
        "## What is said, and the truth",
    ]
    for finding in findings:
        lines += ["", f"### {finding.kind}", "", f"{_capital(finding.truth)}.", ""]
        lines += ["| statement | said | truth | |", "| --- | --- | --- | --- |"]
        lines += map(_statement, finding.statements)
    return INTRODUCTION + "\n".join(lines) + "\n"


def _judgements(studied: Sequence[tuple[Finding, Sequence[Statement]]]) -> list[str]:
    counts = Counter(each.judgement for _, statements in studied for each in statements)
    return [
        f"{len(studied)} kinds, {sum(counts.values())} statements: {counts[RIGHT]} right, {counts[REFUSED]} refused, "
        f"{counts[WRONG]} wrong.",
        "",
        "| kind | truth | right | refused | wrong |",
        "| --- | --- | --- | --- | --- |",
        *(_row(finding, statements) for finding, statements in studied),
    ]


def _row(finding: Finding, statements: Sequence[Statement]) -> str:
    cells = [
        ", ".join(each.about for each in statements if each.judgement == judgement) or "–"
        for judgement in (RIGHT, REFUSED, WRONG)
    ]
    return f"| {finding.kind} | {finding.truth} | " + " | ".join(cells) + " |"


def _statement(each: Statement) -> str:
    text = each.said if len(each.said) <= MOST else each.said[: MOST - 1] + "…"
    return f"| {each.about} | {text.replace('|', '/')} | {each.truth or '–'} | {each.judgement} |"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
