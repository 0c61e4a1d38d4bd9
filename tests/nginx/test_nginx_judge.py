"""The njs logic: the whole table of header vectors under the njs command, a sample of it through nginx."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nginx_support import TRUSTED, get, logged
from nginx_upstream import Upstream
from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.nginx import Nginx, nginx_program, nginx_version

TABLE = json.loads((Path(__file__).parents[1] / "vectors" / "request_start.json").read_text())
CASES: list[dict[str, Any]] = TABLE["cases"]

# One process for the whole table: reads it, judges every case, prints a verdict a line (the njs command breaks a line
# of more than 2048 characters).
DRIVER = """
import sojourn from 'sojourn.js';
import fs from 'fs';

const table = JSON.parse(fs.readFileSync('TABLE', 'utf8'));
function limit(value, standard) { return value === undefined ? standard : value; }
table.cases.forEach(function (one) {
    const age = limit(one.max_age, 3600);
    console.log(JSON.stringify(sojourn.judge(one.headers, table.now_us, age, limit(one.max_future, 10))));
});
console.log(JSON.stringify(
    [1767225599877000, 1767225599877001, 1767225600000000, 1767225599000001].map(sojourn.seconds)
));
"""


@pytest.fixture(scope="module")
def njs_results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    njs = shutil.which("njs")
    if njs is None:
        pytest.skip("the njs command is not installed")
    folder = tmp_path_factory.mktemp("njs")
    shutil.copy(resource_file("nginx", "sojourn.js"), folder)
    (folder / "table.json").write_text(json.dumps(TABLE))
    (folder / "driver.js").write_text(DRIVER.replace("TABLE", str(folder / "table.json")))
    done = subprocess.run(
        [njs, "-p", folder, folder / "driver.js"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    *verdicts, seconds = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(verdicts) == len(CASES)
    return {"verdicts": verdicts, "seconds": seconds}


def test_the_table_is_not_empty() -> None:
    assert len(CASES) >= 45


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case["name"] for case in CASES])
def test_verdict(njs_results: dict[str, Any], number: int) -> None:
    case = CASES[number]
    expected = {"us": case["start_us"]} if "start_us" in case else {"reason": case["reason"]}
    assert njs_results["verdicts"][number] == expected


def test_seconds_keep_microseconds_only_where_there_are_any(njs_results: dict[str, Any]) -> None:
    assert njs_results["seconds"] == [
        "1767225599.877",
        "1767225599.877001",
        "1767225600.000",
        "1767225599.000001",
    ]


def test_only_the_common_subset_of_the_language_is_used() -> None:
    """What njs 0.7.9 lacks or QuickJS does differently must not creep in."""
    code = re.sub(r"//.*", "", resource_file("nginx", "sojourn.js").read_text())
    for construct in (r"\?\.", r"\?\?", r"\bclass\b", r"\(\?<", r"BigInt", r"[0-9]n\b", r"\basync\b", r"`", r"\.\.\."):
        assert not re.search(construct, code), construct
    assert not re.search(r"\b(?:const|let|var)\s*[\[{]", code), "destructuring"
    assert len(re.findall(r"\bexport\b", code)) == 1


def shifted(value: str, delta_s: int) -> str:
    """The same stamp `delta_s` seconds later, whatever its unit."""

    def later(match: re.Match[str]) -> str:
        digits = match[0]
        scale = {10: 1, 13: 10**3, 16: 10**6, 19: 10**9}.get(len(digits))
        if scale is None or digits[0] == "0":
            return digits
        return str(int(digits) + delta_s * scale)

    return re.sub(r"(?<![\d.])\d+", later, value)


def holds_later(case: dict[str, Any]) -> bool:
    """Whether the verdict is the same when nginx gets to it some seconds later, and nginx lets the header through."""
    near_a_limit = "max_age" in case or "max_future" in case or "limit" in case["name"]
    overflows = "9999999999" in str(case["headers"])
    return not near_a_limit and not overflows and all(name.islower() or name[0] == "X" for name, _ in case["headers"])


SAMPLE = [case for case in CASES if holds_later(case)]


def first_of_doubled_only(case: dict[str, Any]) -> bool:
    """Whether the case is a doubled header whose first value needs no njs: nginx before 1.23 sees just that one."""
    names = [name.lower() for name, _ in case["headers"]]
    program = nginx_program()
    assert program is not None
    version = tuple(int(part) for part in nginx_version(program).split(".")[:2])
    return version < (1, 23) and len(set(names)) < len(names)


def test_the_sample_through_nginx(shop: Callable[..., Nginx], app: Upstream) -> None:
    nginx = shop(trusted=TRUSTED)
    sample = [case for case in SAMPLE if not first_of_doubled_only(case)]
    assert len(sample) >= 60
    deltas = []
    for case in sample:
        deltas.append(int(time.time()) - TABLE["now_us"] // 1_000_000)
        headers = [(name, shifted(value, deltas[-1])) for name, value in case["headers"]]
        assert get(nginx, headers=[pair for pair in headers if pair[0] != "Host"]).status == 200
    rows = logged(nginx, len(sample))
    for case, row, delta, request in zip(sample, rows, deltas, app.requests, strict=True):
        if "start_us" in case:
            whole, _, fraction = row["request_start"].partition(".")
            assert int(whole + fraction.ljust(6, "0")) == case["start_us"] + delta * 1_000_000, case["name"]
            assert row["stamp"] == "inbound", case["name"]
        else:
            expected = "own" if case["reason"] == "missing" else f"refused:{case['reason']}"
            assert row["stamp"] == expected, case["name"]
            assert row["request_start"] == row["proxy_start"]
        assert request.values("x-request-start") == [f"t={row['request_start']}"], case["name"]


def test_a_doubled_plain_stamp(shop: Callable[..., Nginx], app: Upstream) -> None:
    """Refused where nginx shows both; the first one, which is the earlier hop's, where it shows only that."""
    nginx = shop(trusted=TRUSTED)
    first = f"t={time.time() - 0.1:.3f}"
    get(nginx, headers=[("X-Request-Start", first), ("X-Request-Start", f"t={time.time():.3f}")])
    (row,) = logged(nginx)
    program = nginx_program()
    assert program is not None
    if tuple(int(part) for part in nginx_version(program).split(".")[:2]) >= (1, 23):
        assert row["stamp"] == "refused:list"
    else:
        # njs sees both, so across the border of ten seconds it is refused there, too.
        assert (row["stamp"], row["request_start"]) == ("inbound", first[2:]) or row["stamp"] == "refused:list"
