"""Every fix, one after the other, before a real app: no finding is left, and the stamp logged is the stamp sent."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from apps_behind import METHOD, Way, exchanged, nginx_before, way_to
from doctor_faults import FAULTS, SOMAXCONN, Fault
from doctor_support import DEADLINE_S, Laid, app, got, laid, running
from sojourn.doctor.doctor import diagnose
from sojourn.doctor.findings import Edit, Finding
from sojourn.doctor.nginx_headers import FAMILIES, setter
from sojourn.doctor.nginx_records import FULL, is_of_sojourn
from sojourn_lab.runtime.nginx import Nginx
from wide_tables import one_of

NO_NGINX = Nginx.why_unavailable()
pytestmark = pytest.mark.skipif(NO_NGINX is not None, reason=NO_NGINX or "")

MOST_STEPS = 12
WORK_S = 0.05
JSON = (
    'log_format j escape=json \'{"time":"$msec","status":"$status","request_time":"$request_time",\'\n'
    '        \'"upstream_addr":"$upstream_addr","uri":"$uri"%s}\';\n'
    "    access_log @FOLDER@/access.jsonl j;"
)
INCLUDED = "include sojourn/sojourn.conf;\n    access_log @FOLDER@/access.jsonl sojourn;"
LOGS = {
    "nginx's own log": "access_log @FOLDER@/other.log combined;",
    "no log": "",
    "JSON without a stamp": JSON % "",
    "JSON that logs $msec": JSON % ',\\"request_start\\":\\"$msec\\"'.replace("\\", ""),
    "sojourn.conf": INCLUDED,
}
LEVELS = ("location", "server", "http")
HABITS = ('"t=${msec}"', "$msec", "t=$msec", "'t=$msec'")


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Way]]:
    """The real servers, each started once, when a test needs it."""
    with ExitStack() as stack:
        yield _Ways(stack, tmp_path_factory)


class _Ways(dict[str, Way]):
    def __init__(self, stack: ExitStack, folders: pytest.TempPathFactory) -> None:
        super().__init__()
        self._stack, self._folders = stack, folders

    def __missing__(self, family: str) -> Way:
        self[family] = self._stack.enter_context(way_to(family, self._folders.mktemp(family)))
        return self[family]


def stamp_line(family: str, value: str, header: str = "X-Request-Start") -> str:
    name = header if family in ("proxy", "grpc") else f"HTTP_{header.upper().replace('-', '_')}"
    return f"{setter(family)} {name} {value};"


@dataclass(frozen=True)
class Habit:
    """Lines of a user's own stamp for a family, at a level."""

    family: str
    level: str
    log: str
    value: str

    def laid(self, folder: Path, way: Way, *more: str) -> Laid:
        own = stamp_line(self.family, self.value)
        # A location with lines of its own inherits none: those of CGI go where the stamp goes.
        passing, *others = way.lines
        inside = "\n            ".join([passing, *more, *([own, *others] if self.level == "location" else [])])
        server = f"location / {{\n            {inside}\n        }}"
        if self.level == "server":
            server = "\n        ".join([own, *others, server])
        log = LOGS[self.log]
        if self.level == "http":
            log = "\n    ".join([own, *others, log])
        return nginx_before(folder, self.family, server, log)


def mended(conf: Laid, somaxconn: int = SOMAXCONN, *, server: str = "", together: bool = False) -> list[str]:
    """Apply the fix of the first finding that has one until none has; return their codes.

    ``together``: the fixes of all findings at once, without those that change the same text as an earlier one.
    """
    codes: list[str] = []
    while left := [each for each in conf.diagnosed(somaxconn, server=server).findings if each.edits]:
        assert len(codes) < MOST_STEPS, (codes, conf.path.read_text())
        assert_only_files_of_the_user(left)
        edits: list[Edit] = []
        for finding in left if together else left[:1]:
            if not any(overlap(one, other) for one in finding.edits for other in edits):
                codes.append(finding.code)
                edits += finding.edits
        conf.apply(tuple(edits))
        assert conf.accepted() == "", (codes, conf.path.read_text())
    return codes


def overlap(one: Edit, other: Edit) -> bool:
    if one == other or one.file != other.file or one.begin is None or other.begin is None:
        return False
    return one.begin < other.end and other.begin < one.end


def assert_only_files_of_the_user(findings: list[Finding]) -> None:
    for finding in findings:
        assert not [edit.file for edit in finding.edits if is_of_sojourn(edit.file)], finding
        assert not is_of_sojourn(finding.where.partition(":")[0]), finding


def one_request(conf: Laid, family: str, log: str = "access.jsonl") -> tuple[dict[str, str], dict[str, str]]:
    """Run nginx for a request of a client that forges a stamp; return its record and the headers that the app got."""
    file = conf.folder / log
    with running(conf):
        path = METHOD if family == "grpc" else "/"
        forged = [("X-Request-Start", "t=1"), ("X-Queue-Start", "t=1"), ("X-Request-ID", "forged")]
        sent, _ = exchanged(conf.ports["PORT"], family, path, forged)
        deadline = time.monotonic() + DEADLINE_S
        while not (file.exists() and file.read_bytes().endswith(b"\n")):
            assert time.monotonic() < deadline, conf.path.read_text()
            time.sleep(0.005)
    return json.loads(file.read_text().splitlines()[-1]), sent


def assert_sent_and_logged(record: dict[str, str], sent: dict[str, str]) -> None:
    stamps = [sent[name] for name in ("x-request-start", "x-queue-start") if sent.get(name)]
    assert [float(stamp.removeprefix("t=")) for stamp in stamps] == [float(record["request_start"])], stamps
    begun = float(record["time"]) - sum(map(float, record["upstream_response_time"].split(", ")))
    assert float(record["request_start"]) <= begun + 0.002
    assert sent["x-request-id"] == record["request_id"] != "forged"


def log_in_folder(conf: Laid) -> None:
    """Give the log that a fix proposes a place where the test may write."""
    text = conf.path.read_text()
    conf.path.write_text(text.replace("/var/log/nginx/sojourn", str(conf.folder / "access")))


def assert_mended(conf: Laid, family: str) -> None:
    """No finding of the configuration, nor of the log about stamps, and one stamp that is sent and logged."""
    assert conf.diagnosed().findings == []
    log_in_folder(conf)
    assert_sent_and_logged(*one_request(conf, family))
    of_log = diagnose(str(conf.folder / "access.jsonl")).findings
    assert not [each for each in of_log if each.code in ("log-stamp", "stamp-missing", "log-keys")]


@pytest.mark.parametrize(("family", "level", "log", "together"), one_of(6, FAMILIES, LEVELS, LOGS, [False, True]))
def test_a_habit_of_the_user_ends_in_one_stamp(
    tmp_path: Path, ways: dict[str, Way], family: str, level: str, log: str, together: bool
) -> None:
    value = HABITS[(FAMILIES.index(family) + LEVELS.index(level) + list(LOGS).index(log)) % len(HABITS)]
    conf = Habit(family, level, log, value).laid(tmp_path / "nginx", ways[family])
    assert conf.accepted() == ""
    assert mended(conf, together=together)
    assert_mended(conf, family)


DOUBLED = {
    "a stamp behind the include": ("include {include};", "{start}"),
    "a stamp before the include": ("{start}", "include {include};"),
    "two stamps beside the include": ("{start}", "include {include};", "{again}"),
    "an id behind the include": ("include {include};", "{id}"),
    "an id before the include": ("{id}", "include {include};"),
    "ids and stamps": ("{id}", "{start}", "include {include};", "{id}"),
    "the include twice": ("include {include};", "include {include};"),
    "the include twice, once in a file of the user's": ("include mine_include.conf;", "include {include};"),
    "an id in a file of the user's": ("include {include};", "include mine_id.conf;"),
    "an id in a file of the user's, first": ("include mine_id.conf;", "include {include};"),
}

MINE_INCLUDE = tuple(f"include sojourn/{FULL.include_name(family)};" for family in FAMILIES)


@pytest.mark.parametrize(("family", "form"), one_of(3, FAMILIES, DOUBLED))
def test_of_doubled_lines_sojourns_remains(tmp_path: Path, ways: dict[str, Way], family: str, form: str) -> None:
    """Each removal is of a line of the user's, and one by one they leave one line of each header."""
    values = {
        "include": f"sojourn/{FULL.include_name(family)}",
        "start": stamp_line(family, '"t=${msec}"'),
        "again": stamp_line(family, "$msec"),
        "id": stamp_line(family, '"$request_id"', "X-Request-ID"),
    }
    lines = [line.format(**values) for line in DOUBLED[form]]
    way = ways[family]
    inside = "\n            ".join([*way.lines, *lines])
    conf = nginx_before(tmp_path / "nginx", family, f"location / {{\n            {inside}\n        }}")
    (conf.folder / "mine_include.conf").write_text(f"include {values['include']};\n")
    (conf.folder / "mine_id.conf").write_text(f"{values['id']}\n")
    assert conf.accepted() == ""
    findings = conf.diagnosed().findings
    assert {each.code for each in findings} == {"stamp-twice"}
    expected = sum(name in line for line in DOUBLED[form] for name in ("{start}", "{again}", "{id}", "mine_id"))
    assert len(findings) == (expected or 1)
    assert all(each.how == "remove" and each.fix in (*lines, values["id"], *MINE_INCLUDE) for each in findings)
    before = {file: file.read_text() for file in (conf.folder / "sojourn").iterdir()}
    assert set(mended(conf, together=True)) == {"stamp-twice"}
    assert {file: file.read_text() for file in (conf.folder / "sojourn").iterdir()} == before
    assert_mended(conf, family)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("value", ['"00-${request_id}-1111111111111111-00"', "$http_traceparent"])
def test_a_traceparent_of_the_user_still_reaches_the_app(
    tmp_path: Path, ways: dict[str, Way], family: str, value: str
) -> None:
    """Its removal would change which requests the app samples."""
    lines = [
        *ways[family].lines,
        f"include sojourn/{FULL.include_name(family)};",
        stamp_line(family, value, "traceparent"),
    ]
    inside = "\n            ".join(lines)
    conf = nginx_before(tmp_path / "nginx", family, f"location / {{\n            {inside}\n        }}")
    assert mended(conf) == ["stamp-twice"]
    record, sent = one_request(conf, family)
    assert_sent_and_logged(record, sent)
    own = value != "$http_traceparent"
    assert sent.get("traceparent") == (f"00-{record['request_id']}-1111111111111111-00" if own else None)


# Of two nginx in a row the app has the stamp of the inner one; the other families have no app in these configurations.
NOT_REQUESTED = ("two nginx in a row", "earlier lines for", "a stamp of uwsgi")
REQUESTED = [each for each in FAULTS if not each.name.startswith(NOT_REQUESTED)]


@pytest.mark.parametrize("fault", REQUESTED, ids=lambda fault: fault.name)
def test_each_fix_leaves_one_stamp(tmp_path: Path, fault: Fault) -> None:
    conf = laid(tmp_path / "broken", fault)
    mended(conf, fault.somaxconn, server=fault.server)
    log_in_folder(conf)
    left = conf.diagnosed(max(fault.somaxconn, 65535), server=fault.server).findings
    assert [each.code for each in left if each.edits or each.code != "backlog-capped"] == []
    with app(conf.ports["APP"], WORK_S, fault.server) as requests, running(conf):
        for path in ("/", "/api/x"):
            got(conf.ports["PORT"], path, {"X-Request-Start": "t=1", "X-Queue-Start": "t=1", "X-Request-ID": "forged"})
        deadline = time.monotonic() + DEADLINE_S
        while len(records := records_of(conf)) < 2:
            assert time.monotonic() < deadline, conf.path.read_text()
            time.sleep(0.005)
    sent = [{name: values[-1] for name, values in each.items()} for each in requests]
    by_id = {each["x-request-id"]: each for each in sent if "x-request-id" in each}
    for record in records:
        assert_sent_and_logged(record, by_id[record["request_id"]])


def records_of(conf: Laid) -> list[dict[str, str]]:
    """The complete records of all logs that the configuration names after the one of the test."""
    files = [file for file in conf.folder.glob("access*.jsonl") if file.is_file()]
    lines = [line for file in files for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [json.loads(line) for line in lines]


def test_lines_are_quoted_as_they_are_written(tmp_path: Path, ways: dict[str, Way]) -> None:
    own = (
        "proxy_set_header  Host   '$host';",
        'proxy_set_header X-Mine "a b";',
        "access_log @FOLDER@/other.log  combined;",
    )
    server = "\n        ".join([*own, f"location / {{ {ways['proxy'].lines[0]} }}"])
    conf = nginx_before(tmp_path / "nginx", "proxy", server, INCLUDED.replace("sojourn;", "  sojourn;"))
    findings = {each.code: each for each in conf.diagnosed().findings}
    assert {"proxy_set_header  Host   '$host';", 'proxy_set_header X-Mine "a b";'} <= set(
        findings["stamp-missing"].fix.splitlines()
    )
    assert findings["log-replaced"].fix == f"access_log {conf.folder}/access.jsonl   sojourn;"
    mended(conf, together=True)
    assert_mended(conf, "proxy")


@pytest.mark.parametrize("family", ["proxy", "fastcgi"])
def test_the_fix_of_a_log_alone_is_one_stamp(tmp_path: Path, ways: dict[str, Way], family: str) -> None:
    """Without the configuration, the doctor's lines have no variable that nginx does not have, for either directive."""
    first = '{"time":"$msec","status":"$status","request_time":"$request_time","queueing_delay":"0.1"%s}'
    log = tmp_path / "a.log"
    log.write_text(
        '{"time":"1767225600.100","status":"200","request_time":"0.1","queueing_delay":"0.1",'
        '"upstream_addr":"127.0.0.1:1","request_id":"r","uri":"/"}\n'
    )
    (finding,) = [each for each in diagnose(str(log)).findings if each.code == "log-keys"]
    own_map, proxy, fastcgi, keys = re.split(r"^#.*\n", finding.fix, flags=re.M)[1:]
    line = {"proxy": proxy, "fastcgi": fastcgi}[family].strip()
    more = keys + '\n\',"upstream_addr":"$upstream_addr","request_id":"$request_id"\''
    texts = f"log_format j escape=json '{first % ''}".removesuffix("}") + f"'\n{more}\n'}}';"
    http = f"{own_map}\n    {texts}\n    access_log @FOLDER@/access.jsonl j;"
    identity = stamp_line(family, "$request_id", "X-Request-ID")
    inside = "\n            ".join([*ways[family].lines, line, stamp_line(family, '""', "X-Queue-Start"), identity])
    conf = nginx_before(tmp_path / "nginx", family, f"location / {{\n            {inside}\n        }}", http)
    assert conf.accepted() == ""
    assert_sent_and_logged(*one_request(conf, family))
