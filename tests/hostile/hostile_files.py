"""A log, spans, a capture and samples of the kernel of real requests, in which every text is hostile.

They are those of the documents' examples, so that every analysis has something to find; only their names are others.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from hostile_text import NAMES, bare, name
from sojourn.cli import main

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
# The pieces that routes begin with: few enough for a terminal to show them all.
FIRST = [NAMES.index(each) for each in (
    "colour", "c1", "overwrite", "bidi", "unseen", "element", "template", "markup", "formula",
)]  # fmt: skip
ROUTES = len(FIRST)
EXTRA = "tenant"
TEXTS = ("method", "protocol", "host", "remote_addr", "worker", "proxy", "service", "trace_id", "span_id")


@dataclass(frozen=True)
class HostileFiles:
    """Where what is hostile lies."""

    folder: Path
    log: Path
    spans: Path
    traces: Path
    capture: Path
    wire_log: Path
    kernel: Path


@dataclass(frozen=True)
class Printed:
    """What a command said."""

    code: int
    out: str
    err: str


def ran(*arguments: object, width: int = 500, **environment: str) -> Printed:
    """A command as the shell runs it, in this process."""
    out, err = io.StringIO(), io.StringIO()
    surroundings = {"COLUMNS": str(width), "NO_COLOR": "1", **environment}
    argv = ["sojourn", *map(str, arguments)]
    with (
        mock.patch.dict(os.environ, surroundings),
        mock.patch.object(sys, "argv", argv),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    return Printed(code, out.getvalue(), err.getvalue())


def built(folder: Path) -> HostileFiles:
    """The files of that folder."""
    system = HostileFiles(
        folder,
        folder / "access\x1b[31m[red]<img src=x>[.jsonl",
        folder / "spans\x1b[31m[red]<b>.jsonl",
        folder / "traces.jsonl",
        folder / "wire\x1b[31m[red]<b>.pcap",
        folder / "wire.jsonl",
        folder / "kernel\x1b[31m[red]<b>.jsonl",
    )
    system.log.write_bytes(b"".join(_requests()) + b"".join(_refused()))
    system.spans.write_bytes(b"".join(_spans("shop-spans.jsonl.gz")))
    system.traces.write_bytes(b"".join(_spans("checkout-spans.jsonl.gz")))
    system.capture.write_bytes(_capture())
    system.wire_log.write_bytes(b"".join(_wire_requests()))
    system.kernel.write_bytes(b"".join(_samples()))
    return system


def _lines(example: str) -> Iterator[dict]:
    with gzip.open(EXAMPLES / example, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _line(record: dict) -> bytes:
    return json.dumps(record).encode() + b"\n"


def _requests() -> Iterator[bytes]:
    backends: dict[str, str] = {}
    for number, record in enumerate(_lines("shop.jsonl.gz")):
        turn = number % ROUTES
        backend = backends.setdefault(record["upstream_addr"], name("backend", len(backends)).replace(",", ";"))
        record.update(
            {field: name(field, turn % 3) for field in TEXTS if field != "worker"},
            route=bare(FIRST[turn]),
            uri=bare(FIRST[turn]),
            upstream_addr=backend,
            **{EXTRA: name("tenant", FIRST[turn])},
        )
        if record["worker"]:
            record["worker"] = name("worker" + record["worker"], int(record["worker"]) % 7)
        if record["status"] == "504":
            record["request_id"] = "id" + record["request_id"]
        yield _line(record)


def _refused() -> Iterator[bytes]:
    for turn in range(len(NAMES)):
        yield name("junk", turn).replace("\n", "").encode() + b"\xff\n"
        yield _line({"time": bare(turn), "route": bare(turn), name("key", turn): bare(turn)})


def _spans(example: str) -> Iterator[bytes]:
    for number, export in enumerate(_lines(example)):
        turn = number % 3
        for resource in export["resourceSpans"]:
            for attribute in resource["resource"]["attributes"]:
                attribute["value"]["stringValue"] += name("", 8)
            for span in (span for scope in resource["scopeSpans"] for span in scope["spans"]):
                span["name"] = name("span", turn)
                span["status"] = {"code": 2, "message": name("status", turn)}
                span["events"] = [{"name": name("event", turn), "timeUnixNano": span["startTimeUnixNano"]}]
                for attribute in span["attributes"]:
                    _renamed(attribute, turn)
                span["attributes"].append({"key": name("key", turn), "value": {"stringValue": bare(turn)}})
        yield _line(export)


def _renamed(attribute: dict, turn: int) -> None:
    if attribute["key"] == "http.route":
        attribute["value"] = {"stringValue": bare(FIRST[turn])}
    elif attribute["key"] == "queueing.worker":
        attribute["value"] = {"stringValue": attribute["value"]["stringValue"] + name("", turn)}
    elif attribute["key"] == "peer.service":
        attribute["value"]["stringValue"] += name("", 8)
    elif attribute["key"].endswith("request-id") and "arrayValue" in attribute["value"]:
        for value in attribute["value"]["arrayValue"]["values"]:
            value["stringValue"] = "id" + value["stringValue"]


# Made as long as what they replace: nothing else of a packet has to change.
_PATH = b"/sleep/0.020000"
_PATHS = [
    path.ljust(len(_PATH), b"x")
    for path in (b"/\x1b[31m\x9b1m\xe2\x80\xae<", b"/<img/src=x", b"/[red][/]{{7}}'", b'/</script><b>&"', b"=cmd|'A0")
]


def _capture() -> bytes:
    with gzip.open(EXAMPLES / "wire.pcap.gz") as file:
        data = file.read()
    paths = itertools.cycle(_PATHS)
    return re.sub(re.escape(_PATH), lambda _: next(paths), data)


def _wire_requests() -> Iterator[bytes]:
    for number, record in enumerate(_lines("wire.jsonl.gz")):
        record.update(route=bare(number % ROUTES), uri=bare(number % ROUTES), method=name("method", number % 3))
        yield _line(record)


def _samples() -> Iterator[bytes]:
    for sample in _lines("wire-kernel.jsonl.gz"):
        for socket in sample["sockets"]:
            socket["name"] += name("", 3)
        sample["raindrops"] = {
            bare(8): {"seconds": 0.1, "calling": 1, "writing": 0, "listeners": {bare(9): [1, 0]}},
            bare(10): bare(11),
        }
        queue = {"seconds": 0.1, "waiting": 2, "busy": 1, "workers": 1, "instance": bare(3)}
        sample["servers"] = {
            bare(2): {"kind": bare(4), **queue},
            bare(5): {"kind": "node", "event_loop_utilisation": 1.0, **queue},
            bare(6): {"kind": "puma", "reason": bare(7)},
        }
        sample["unavailable"] = {bare(1): bare(12)}
        sample["settings"] = {**sample.get("settings", {}), bare(12): 3}
        yield _line(sample)


def every_command(system: HostileFiles, out: Path) -> dict[str, Sequence[object]]:
    """Each command by a name, with its arguments; what it writes goes into ``out``."""
    log, spans = system.log, ("--spans", system.spans)
    return {
        "split": ("split", log, *spans, "--parquet", out / "split.parquet", "--rejects", out / "rejects.jsonl",
                  "--by", "route,upstream,worker,service"),
        "blame": ("blame", log, *spans, "--by", "route"),
        "depth": ("depth", log),
        "goodput": ("goodput", log, *spans, "--by", EXTRA),
        "laws": ("laws", log),
        "capacity": ("capacity", log, "--slo", "p99=0.5"),
        "whatif": ("whatif", log, *spans, "--set", "workers=+1"),
        "compare": ("compare", log, system.wire_log),
        "clock": ("clock", log),
        "tiers": ("tiers", system.traces),
        "pcap": ("pcap", system.capture, "--log", system.wire_log, "--kernel", system.kernel, "--html",
                 out / "pcap.html", "--parquet", out / "pcap.parquet"),
        "kernel": ("kernel", system.kernel, "--html", out / "kernel.html"),
        "watch": ("watch", log, "--once", "--from-start"),
        "doctor": ("doctor", log),
        "movie": ("movie", log, "--by", "service", "--out", out / "movie.html", "--title", bare(0)),
        "timeline": ("timeline", log, *spans, "--out", out / "a.pftrace"),
        "report": ("report", log, *spans, "--spans", system.traces, "--html", out / "report.html"),
        "plot": ("plot", log, "blame", *spans, "--out", out / "blame.svg", "--out", out / "blame.json",
                 "--title", bare(0)),
    }  # fmt: skip
