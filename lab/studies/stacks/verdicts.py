"""The results of Sojourn's commands for the log of a stack."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
from sojourn_lab.errors import LabError
from sojourn_lab.load.plan import ClientRecord

from studies.stacks.stack import Stack

PATIENCE = 120.0


def verdict_of(stack: Stack, records: list[ClientRecord]) -> dict[str, Any]:
    """Return a row of the table: figures of the clients, and the results of split, doctor, blame and whatif."""
    log = str(stack.access_log)
    split = _answer("split", log)
    doctor = _answer("doctor", str(stack.conf), log)
    blame = _answer("blame", log)
    whatif = _answer("whatif", log, "--set", "workers=+1")
    figures, audit = split.get("components", {}), split.get("audit", {})
    return {
        **client_figures(records),
        "queueing_share": split.get("queueing_share"),
        "unattributed_share": _share(figures.get("unattributed"), split.get("response_time")),
        "app_known": audit.get("app_known"),
        "cause": split.get("verdict", {}).get("cause"),
        "sentence": split.get("verdict", {}).get("sentence") or split.get("complaint"),
        "notes": split.get("notes", []),
        "failed_checks": audit.get("failures", []),
        "followed": stack.followed,
        "findings": [{key: each[key] for key in ("code", "severity")} for each in doctor.get("findings", [])],
        "blame": {key: blame.get(key) for key in ("waited", "blamed", "imbalance", "dispatch", "unknown", "complaint")},
        "whatif": {
            "accepted": bool(whatif.get("variants")) and not whatif.get("refused"),
            "refused": whatif.get("refused") or whatif.get("complaint"),
            "p99": _p99(whatif),
        },
    }


def client_figures(records: list[ClientRecord]) -> dict[str, Any]:
    """Return the counts of requests and failures, requests/s of the whole load, and p99 of the response time, s."""
    answered = [each for each in records if each.done is not None and each.error is None and each.status == 200]
    if not answered:
        return {"requests": len(records), "failed": len(records), "rate": None, "p99": None}
    lasted = max(each.done or 0.0 for each in answered) - min(each.sent for each in records)
    times = [(each.done or 0.0) - each.sent for each in answered]
    return {
        "requests": len(records),
        "failed": len(records) - len(answered),
        "rate": len(answered) / lasted,
        "p99": float(np.quantile(times, 0.99)),
    }


def _answer(*arguments: str) -> dict[str, Any]:
    """Return the JSON that a command prints, or its stderr as `complaint`; LabError for a traceback."""
    command = [sys.executable, "-m", "sojourn", "--no-config", *arguments, "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise LabError(f"sojourn {arguments[0]} took more than {PATIENCE:g} s") from None
    if "Traceback" in done.stderr:
        raise LabError(f"sojourn {arguments[0]} failed:\n{done.stderr}")
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        return {"complaint": done.stderr.strip() or f"exit code {done.returncode}"}
    return answer if isinstance(answer, dict) else {"complaint": "the answer is no object"}


def _share(part: dict[str, float] | None, whole: dict[str, float] | None) -> float | None:
    return part["mean"] / whole["mean"] if part and whole and whole["mean"] else None


def _p99(whatif: dict[str, Any]) -> dict[str, float] | None:
    variants = whatif.get("variants")
    if not variants:
        return None
    return {"measured": whatif["measured"]["response_time"]["p99"], "predicted": variants[0]["response_time"]["p99"]}
