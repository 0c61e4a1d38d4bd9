"""The verdict on a long run: whether memory is flat and all data arrived; as JSON and as a table."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sojourn.model.formatting import formatted

from sojourn_lab.experiments.endurance.growth import growth_of
from sojourn_lab.experiments.endurance.stack import Measurements, Wish

ALLOWED_BYTES, ALLOWED_FILES = 10e6, 8.0
ENDED = (0, 143, -15, None)  # by itself or by SIGTERM
DRIVER = "generator"
"""Keeps a record of every request until its end, and is not measured."""


def verdict_of(wish: Wish, measured: Measurements, broken: str = "") -> dict[str, Any]:
    """Return the results; ``faults`` are sentences, empty for a good run.

    ``broken`` is the reason of an early end.
    """
    faults = [broken] if broken else []
    parts: dict[str, Any] = {}
    for name, samples in measured.usage.items():
        if not samples:
            continue
        instants = measured.instants[-len(samples) :]
        memory = growth_of(instants, [float(each.resident) for each in samples], ALLOWED_BYTES)
        files = growth_of(instants, [float(each.files) for each in samples], ALLOWED_FILES)
        spent = (samples[-1].cpu - samples[0].cpu) / max(instants[-1] - instants[0], 1e-9)
        parts[name] = {
            "memory": None if memory is None else asdict(memory),
            "files": None if files is None else asdict(files),
            "cores": spent,
        }
        if name == DRIVER:
            continue
        if memory is not None and not memory.flat:
            faults.append(f"{name}: memory grew by {memory.growth / 1e6:.1f} MB after it had settled")
        if files is not None and not files.flat:
            faults.append(f"{name}: {files.growth:.0f} more files are open than when it had settled")
    if not broken:
        faults += _missing(measured.counts)
    faults += [f"{name} ended with {code}" for name, code in measured.ends.items() if code not in ENDED]
    return {
        "seconds": wish.seconds,
        "rate": wish.rate,
        "samples": len(measured.instants),
        "parts": parts,
        "disk": {"first": measured.disk[0], "last": measured.disk[-1]} if measured.disk else None,
        "counts": measured.counts,
        "faults": faults,
    }


def _missing(counts: dict[str, int]) -> list[str]:
    """Return a sentence for every two counts (offered, written, stored …) that differ."""
    same = [("offered", "answered"), ("answered", "logged"), ("logged", "stored"), ("stored", "rolled up"),
            ("answered", "spans written"), ("spans written", "spans stored")]  # fmt: skip
    return [
        f"{counts[one]:,} {one}, but {counts[other]:,} {other}" for one, other in same if counts[one] != counts[other]
    ]


def table_of(verdict: dict[str, Any]) -> str:
    """Return the results as Markdown: a row for each part, then the counts and the faults."""
    rows = [
        "| part | memory, MB | most, MB | growth, MB | per day, MB | open files | cores | |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for name, part in verdict["parts"].items():
        memory, files = part["memory"], part["files"]
        if memory is None or files is None:
            rows.append(f"| {name} | | | | | | {part['cores']:.2f} | too few samples |")
            continue
        word = "keeps every record" if name == DRIVER else "flat" if memory["flat"] and files["flat"] else "grows"
        rows.append(
            f"| {name} | {memory['level'] / 1e6:.1f} | {memory['most'] / 1e6:.1f} | "
            f"{formatted(memory['growth'] / 1e6, '+.2f')} | "
            f"{formatted(memory['slope'] * 86_400 / 1e6, '+.0f')} | {files['level']:.0f} | {part['cores']:.2f} | "
            f"{word} |"
        )
    counts = ", ".join(f"{number:,} {name}" for name, number in verdict["counts"].items())
    disk = verdict["disk"]
    lines = [
        f"{verdict['seconds']:,.0f} s at {verdict['rate']:g} requests/s, {verdict['samples']} samples.",
        counts + ".",
    ]
    if disk is not None:
        lines.append(f"Disk: {disk['first'] / 1e6:.1f} MB at first, {disk['last'] / 1e6:.1f} MB at last.")
    lines += [f"**{fault}**" for fault in verdict["faults"]] or ["Everything is flat, and nothing is missing."]
    return "\n".join([*rows, "", *lines]) + "\n"
