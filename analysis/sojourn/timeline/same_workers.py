"""Addresses that lead to the same workers: two ports, a name and an address, IPv4 and IPv6.

Two addresses have the same workers if their worker names are equal and a worker never serves at both at a time,
although by chance it would. Equal names alone say nothing: process ids of containers are often equal.
"""

from __future__ import annotations

from itertools import combinations

import polars as pl

MOST_ADDRESSES = 20
LOOKED_AT = 200_000  # requests: the first ones
COMMON = 0.8  # share of the names of the address with fewer
MOST_NAMES = 64  # of an address
EXPECTED = 20.0  # starts that meet a busy worker by chance: fewer say nothing
OVERLAP = 0.05  # of the expected: more is two workers of one name
SLACK = 0.001  # s: the app's clock may count in milliseconds


def same_workers(table: pl.DataFrame) -> dict[str, str]:
    """Return address -> the first address, in alphabetical order, that leads to the same workers.

    Columns of the table: upstream, worker, __busy_start and __busy_end (s).
    """
    if table["upstream"].n_unique() < 2:
        return {}
    services = table.filter(pl.col("worker").is_not_null() & (pl.col("__busy_end") > pl.col("__busy_start")))
    names: dict[str, set[str]] = {}
    first: dict[str, str] = {}
    if services["upstream"].n_unique() > MOST_ADDRESSES:
        return first
    for address, worker in services.lazy().select("upstream", "worker").unique().drop_nulls().collect().iter_rows():
        names.setdefault(address, set()).add(worker)
    some = services.sort("__busy_start").head(LOOKED_AT) if _candidates(names) else services.clear()
    for one, other in _candidates(names):
        if other not in first and _never_at_once(some, first.get(one, one), other, names[one] & names[other]):
            first[other] = first.get(one, one)
    return first


def _candidates(names: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Return the pairs of addresses with nearly the same worker names."""
    return [
        (one, other)
        for one, other in combinations(sorted(names), 2)
        if max(len(names[one]), len(names[other])) <= MOST_NAMES
        and len(names[one] & names[other]) >= COMMON * min(len(names[one]), len(names[other]))
    ]


def _never_at_once(table: pl.DataFrame, one: str, other: str, workers: set[str]) -> bool:
    """Return whether a worker hardly ever starts a request at one address while it serves one at the other.

    By chance, a worker of this name at the other address is busy for a share of the time, and so many starts meet it.
    """
    begin, end, upstream = pl.col("__busy_start"), pl.col("__busy_end"), pl.col("upstream")
    pair = table.lazy().filter(upstream.is_in([one, other]) & pl.col("worker").is_in(sorted(workers)))
    follows = (upstream != upstream.shift(1)) & (pl.col("worker") == pl.col("worker").shift(1))
    meets = follows & (begin < end.shift(1) - SLACK)
    at_one = upstream == one
    chance = pair.group_by("worker").agg(
        seconds=end.max() - begin.min(), starts=at_one.sum(), others=(~at_one).sum(),
        held=(end - begin).filter(at_one).sum(), held_others=(end - begin).filter(~at_one).sum(),
    )  # fmt: skip
    expected = (pl.col("starts") * pl.col("held_others") + pl.col("others") * pl.col("held")) / pl.col("seconds")
    starts, by_chance = pl.collect_all([
        pair.sort("worker", "__busy_start").select(meets.sum()), chance.select(expected.sum())
    ])  # fmt: skip
    likely = float(by_chance.item() or 0.0)
    return likely > EXPECTED and int(starts.item() or 0) < OVERLAP * likely
