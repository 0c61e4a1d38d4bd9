"""Random configurations: what the apps receive and what is logged remains, with Sojourn's lines in addition."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sojourn.doctor.nginx_headers import ANSWER_HEADERS, REQUEST_NAMES
from sojourn.doctor.nginx_levels import Conf, Pass
from sojourn.install.changes import Plan, Settings
from sojourn.install.duplicates import OURS, YOURS
from sojourn.install.marked_text import changed, restored
from sojourn.install.nginx_program import nginx_program
from sojourn.install.plan import planned
from sojourn.nginx.includes import include_files
from sojourn.nginx.syntax import reading_of_files

HEADERS = st.sampled_from(
    ["Host $host", "X-A 'a b'", "X-Request-Start $msec", "X-Request-ID $request_id", "X-Request-ID $http_x_request_id",
     "traceparent $http_traceparent", 'X-Queue-Start "t=${msec}"', "tracestate x", 'X-B "{;}#"']
)  # fmt: skip
LINES = st.one_of(
    HEADERS.map(lambda each: f"proxy_set_header {each};"),
    st.sampled_from(
        ["access_log @/a.log;", "access_log off;", "access_log @/b.log combined;", "proxy_hide_header X-C;",
         "include headers.conf;", "# a comment", "set $x 1;"]
    ),
)  # fmt: skip
BREAKS = st.sampled_from(["\n", " ", "\n\n", "\r\n", "\n\t"])
PASSES = st.sampled_from(["proxy_pass http://127.0.0.1:1;", "include app.conf;", "return 204;"])


@st.composite
def block(draw: st.DrawFn, inner: str = "") -> str:
    parts = [*draw(st.lists(LINES, max_size=4)), *([inner] if inner else [])]
    # A comment ends with its line, whatever follows.
    return "".join(part + ("\n" if part.startswith("#") else draw(BREAKS)) for part in draw(st.permutations(parts)))


@st.composite
def configuration(draw: st.DrawFn) -> dict[str, str]:
    servers = []
    for number in range(draw(st.integers(1, 2))):
        locations = [
            f"location /{index} {{{draw(BREAKS)}{draw(block(inner=draw(PASSES)))}}}{draw(BREAKS)}"
            for index in range(draw(st.integers(1, 3)))
        ]
        if draw(st.booleans()):
            locations.append("include shared.conf;\n")
        head = f"listen 127.0.0.1:9; server_name s{number};\n"
        servers.append(f"server {{{head}{draw(block(inner=''.join(locations)))}}}{draw(BREAKS)}")
    http = draw(block(inner="".join(servers)))
    return {
        "nginx.conf": f"events {{}}\npid @/pid; error_log @/error.log;\nhttp {{\n{http}}}\n",
        "headers.conf": draw(block()).replace("include headers.conf;", "") or "\n",
        "app.conf": draw(block(inner="proxy_pass http://127.0.0.1:2;")).replace("include headers.conf;", ""),
        "shared.conf": f"location /shared {{ {draw(block(inner='proxy_pass http://127.0.0.1:3;'))} }}\n",
    }


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).write_bytes(text.replace("@/", f"{folder}/").encode())
    return folder / "nginx.conf"


def apply(conf: Conf, plan: Plan) -> None:
    texts = {os.path.realpath(name): text for name, text in conf.read.files.items()}
    for file, changes in plan.changes.items():
        Path(file).write_bytes(changed(texts[file], changes).encode())


def others_sent(each: Pass) -> Counter[tuple[str, str]]:
    return Counter((name, value) for name, value, _ in each.sent() if name not in REQUEST_NAMES)


def hidden(each: Pass) -> set[str]:
    return {line.args[0] for line in each.level.effective("proxy_hide_header")}


def logs(each: Pass) -> list[list[str]]:
    return [line.args for line in each.block.effective("access_log") if "sojourn" not in line.args]


REMAINS = st.sampled_from([OURS, YOURS])
CHOICES = st.fixed_dictionaries({}, optional={"x-request-id": REMAINS, "traceparent": REMAINS})


@settings(max_examples=60)
@given(configuration(), CHOICES)
def test_random_configurations(files: dict[str, str], choices: dict[str, str]) -> None:
    program = nginx_program()
    if program is None:
        pytest.skip("nginx is not installed")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = written(folder, files)
        if program.refusal(path) is not None:
            return  # two logs of one level with "off", and the like
        before = Conf(path, reading_of_files(path))
        contents = {each: (folder / each).read_bytes() for each in files}
        chosen = Settings("sojourn", f"{folder}/sojourn.jsonl", f"{folder}/default.log",
                          program.njs_line(before.read.root, "ngx_http_js_module.so"), choices)  # fmt: skip
        plan = planned(before, chosen)
        (folder / "sojourn").mkdir()
        for each, content in include_files().items():
            (folder / "sojourn" / each).write_bytes(content)
        apply(before, plan)
        assert program.refusal(path) is None
        after = Conf(path, reading_of_files(path))
        changed_places = {id(each.directive) for each in plan.passes}
        for old, new in zip(before.passes, after.passes, strict=True):
            assert others_sent(old) == others_sent(new)
            assert hidden(old) <= hidden(new)
            old_logs = logs(old) or ([] if old.block.holder("access_log") else [[f"{folder}/default.log"]])
            assert ["off"] in logs(old) or logs(new) == old_logs
            if id(old.directive) not in changed_places and not any(
                old.level is each.level and old.family == each.family for each in plan.passes
            ):
                assert plan.left
                continue
            names = [header for header, _, _ in new.sent()]
            for header in REQUEST_NAMES:
                values = [value for name, value, _ in new.sent() if name == header]
                remains = {value for name, value, _ in old.sent() if name == header}
                assert len(values) <= max(1, sum(name == header for name, _, _ in old.sent()))
                assert not values or set(values) <= remains or all("$sojourn" in each or each == "" for each in values)
            assert "x-request-start" in names
            assert set(ANSWER_HEADERS) <= hidden(new)
            lines = new.block.effective("access_log")
            assert any("sojourn" in line.args for line in lines) or (["off"] in logs(old) and plan.left)
        for each, content in contents.items():
            text = (folder / each).read_bytes().decode()
            assert restored(text).encode() == content
        again = planned(Conf(path, reading_of_files(path)), chosen)
        assert not again.passes
