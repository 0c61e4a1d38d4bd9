"""What an installation changes, what it leaves alone, and how it puts everything back if a step fails."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from doctor_support import got
from install_support import (
    PLAIN,
    Tree,
    apps_of,
    conf_text,
    row_of_request,
    running,
    tree,
)
from sojourn.doctor.nginx_headers import ANSWER_HEADERS
from sojourn.install import proposal as use_case
from sojourn.install import rotation
from sojourn.install.nginx_program import nginx_program


def test_nginx_refuses_the_change(tmp_path: Path) -> None:
    one = tree(tmp_path, http="log_format sojourn '$request';")
    with running(one) as received:
        before = one.contents()
        code, output = one.install("--yes")
        assert (code, one.contents()) == (1, before)
        assert "duplicate" in output
        got(one.port)
        assert "x-request-start" not in received[-1]


def test_a_request_that_is_not_logged_puts_everything_back(tmp_path: Path) -> None:
    one = tree(tmp_path)
    with running(one) as received:
        before = one.contents()
        code, output = one.command("install", "nginx", str(one.conf), "--log", "/dev/null", "--yes",
                                   "--backup", str(tmp_path / "backups"))  # fmt: skip
        assert (code, one.contents()) == (1, before), output
        got(one.port)
        assert "x-request-start" not in received[-1]  # nginx has its old configuration again
        code, output = one.command("install", "nginx", str(one.conf), "--log", "/dev/null", "--yes", "--no-requests",
                                   "--backup", str(tmp_path / "backups"))  # fmt: skip
        assert code == 0, output
        got(one.port)
        assert received[-1]["x-request-start"][0].startswith("t=")


@pytest.mark.parametrize(
    ("line", "options", "sent", "logged"),
    [
        ("X-Request-ID $http_x_request_id", (), ["client"], "client"),
        ("X-Request-ID $http_x_request_id", ("--replace", "X-Request-ID"), None, None),
        ("X-Request-ID $request_id", (), None, None),
        ("X-Request-ID fixed", ("--keep", "x-request-id"), ["fixed"], "fixed"),
    ],
)
def test_one_request_id_is_sent_and_logged(
    tmp_path: Path, line: str, options: Sequence[str], sent: list[str] | None, logged: str | None
) -> None:
    """``sent`` of None: the id of nginx."""
    one = tree(tmp_path, f"location / {{ proxy_set_header {line}; proxy_pass http://127.0.0.1:@APP@; }}")
    with running(one) as received:
        code, output = one.install("--yes", *options)
        assert code == 0, output
        row = row_of_request(one, headers={"X-Request-ID": "client"})
        (value,) = received[-1]["x-request-id"]
        assert row["request_id"] == value
        assert (len(value) == 32) == (sent is None)
        assert sent is None or ([value], logged) == (sent, value)


def test_an_empty_id_of_the_user_is_logged_as_an_id_of_nginx(tmp_path: Path) -> None:
    one = tree(
        tmp_path, "location / { proxy_set_header X-Request-ID $http_x_request_id; proxy_pass http://127.0.0.1:@APP@; }"
    )
    with running(one):
        assert one.install("--yes")[0] == 0
        assert len(row_of_request(one)["request_id"]) == 32


CONTEXT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OWN = "00-11111111111111111111111111111111-2222222222222222-00"


@pytest.mark.parametrize(
    ("line", "sent", "logged"),
    [
        ("", CONTEXT, CONTEXT[3:35]),
        ("proxy_set_header traceparent $http_traceparent;", CONTEXT, CONTEXT[3:35]),
        (f"proxy_set_header traceparent {OWN};", OWN, ""),
    ],
)
def test_the_trace_context_of_the_app_does_not_change(tmp_path: Path, line: str, sent: str, logged: str) -> None:
    """The log has the trace of the client's context where the app got that, and none that the app did not get."""
    one = tree(tmp_path, f"location / {{ {line} proxy_pass http://127.0.0.1:@APP@; }}")
    headers = {"traceparent": CONTEXT, "tracestate": "vendor=1"}
    with running(one) as received:
        got(one.port, headers=headers)
        before = received[-1]
        assert one.install("--yes")[0] == 0
        row = row_of_request(one, headers=headers)
        names = ("traceparent", "tracestate")
        assert [received[-1].get(name) for name in names] == [before.get(name) for name in names]
        assert received[-1]["traceparent"] == [sent]
        assert row["trace_id"] == logged


@pytest.mark.parametrize("options", [(), ("--keep", "X-Request-Start")])
def test_one_stamp_is_sent(tmp_path: Path, options: Sequence[str]) -> None:
    one = tree(tmp_path, "location / { proxy_set_header X-Request-Start $msec; proxy_pass http://127.0.0.1:@APP@; }")
    with running(one) as received:
        code, output = one.install("--yes", *options)
        assert code == 0, output
        row = row_of_request(one)
        (stamp,) = received[-1]["x-request-start"]
        assert stamp.startswith("t=") == (not options)
        # Where the user's own stamp is sent, the log has no other instant in its place.
        assert row["request_start"] == ("" if options else stamp.removeprefix("t="))


def test_asks_which_line_remains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = tree(tmp_path, "location / { proxy_set_header X-Request-ID fixed; proxy_pass http://127.0.0.1:@APP@; }")
    monkeypatch.setattr("sojourn.install.command._is_terminal", lambda: True)
    with running(one) as received:
        code, output = one.install("--yes", answers="\nn\n")
        assert code == 0, output
        got(one.port)
        assert len(received[-1]["x-request-id"][0]) == 32


def test_repeats_inherited_lines_as_they_are_written(tmp_path: Path) -> None:
    one = tree(
        tmp_path, PLAIN, http="""proxy_set_header X-A 'a "b" \\'c\\'';
    proxy_set_header Host   $host; proxy_set_header X-Request-Start "t=${msec}"; proxy_hide_header X-Secret;""",
    )  # fmt: skip
    with running(one) as received:
        assert one.install("--yes")[0] == 0
        text = one.conf.read_text()
        assert """proxy_set_header X-A 'a "b" \\'c\\''; # sojourn""" in text
        assert "proxy_set_header Host   $host; # sojourn" in text
        assert "proxy_hide_header X-Secret; # sojourn" in text
        got(one.port)
        assert received[-1]["x-a"] == ["a \"b\" 'c'"]
        assert len(received[-1]["x-request-start"]) == 1


def test_changes_a_shared_file_once_and_names_its_places(tmp_path: Path) -> None:
    one = tree(
        tmp_path,
        "location /a { include app.conf; }\n        location /b { include app.conf; }",
        app="proxy_set_header X-Request-ID $request_id;\nproxy_pass http://127.0.0.1:@APP@;\n",
    )
    with running(one) as received:
        code, output = one.install()
        assert code == 0
        assert "inside location /a" in output
        assert "inside location /b" in output
        before = one.contents()
        assert one.install("--yes")[0] == 0
        assert (one.etc / "app.conf").read_text().count("sojourn: off") == 1
        for path in ("/a", "/b"):
            got(one.port, path)
            assert len(received[-1]["x-request-id"]) == 1
        assert one.uninstall("--yes")[0] == 0
        assert one.contents() == before


def test_a_line_that_other_places_share_remains(tmp_path: Path) -> None:
    """The location of the authentication needs its line, and the app's location includes the same file."""
    one = tree(
        tmp_path,
        """location / { auth_request /auth; include id.conf; proxy_pass http://127.0.0.1:@APP@; }
        location = /auth { internal; include id.conf; proxy_pass http://127.0.0.1:@APP@; }""",
        id="proxy_set_header X-Request-ID $request_id;\n",
    )
    with running(one) as received:
        code, output = one.install("--yes")
        assert code == 0, output
        assert (one.etc / "id.conf").read_text() == "proxy_set_header X-Request-ID $request_id;\n"
        row = row_of_request(one)
        assert [len(each["x-request-id"]) for each in received[-2:]] == [1, 1]
        assert row["request_id"] == received[-1]["x-request-id"][0]


def test_leaves_a_shared_location_with_different_inherited_lines_alone(tmp_path: Path) -> None:
    server = "listen 127.0.0.1:@PORT@; server_name {0}.example; proxy_set_header X-Site {0}; include app.conf;"
    one = tree(
        tmp_path,
        PLAIN,
        http=" ".join(f"server {{ {server.format(name)} }}" for name in ("a", "b")),
        app="location / { proxy_pass http://127.0.0.1:@APP@; }\n",
    )
    with running(one) as received:
        code, output = one.install("--yes")
        assert code == 0, output
        assert "app.conf:1" in output
        assert "sojourn" not in (one.etc / "app.conf").read_text()
        got(one.port, headers={"Host": "b.example"})
        assert received[-1]["x-site"] == ["b"]


def test_follows_links(tmp_path: Path) -> None:
    one = tree(tmp_path, "include sites/*.conf;")
    (one.etc / "real").mkdir()
    (one.etc / "sites").mkdir()
    (one.etc / "real" / "shop").write_text(PLAIN.replace("@APP@", one.values["APP"]) + "\n")
    (one.etc / "real" / "shop").chmod(0o640)
    (one.etc / "sites" / "shop.conf").symlink_to("../real/shop")
    with running(one):
        before = one.contents()
        assert one.install("--yes")[0] == 0
        assert (one.etc / "sites" / "shop.conf").is_symlink()
        assert "sojourn_proxy.conf" in (one.etc / "real" / "shop").read_text()
        assert (one.etc / "real" / "shop").stat().st_mode & 0o777 == 0o640
        assert one.uninstall("--yes")[0] == 0
        assert one.contents() == before


def test_installs_at_places_that_are_added_later_and_removes_all(tmp_path: Path) -> None:
    one = tree(tmp_path)
    with running(one) as received:
        assert one.install("--yes")[0] == 0
        later = f"location /later {{ proxy_pass http://127.0.0.1:{one.values['APP']}; }}\n        location / {{"
        one.conf.write_text(one.conf.read_text().replace("location / {", later, 1))
        assert one.install("--yes")[0] == 0
        got(one.port, "/later")
        assert "x-request-start" in received[-1]
        assert one.uninstall("--yes")[0] == 0
        text = conf_text(PLAIN.replace("location / {", later, 1))
        assert one.conf.read_bytes() == one.filled(text.encode())
        assert not (one.etc / "sojourn").exists()


def test_removal_lists_places_that_send_a_stamp_of_the_user_to_a_middleware(tmp_path: Path) -> None:
    """The stamp is switched off by the installation, or inherited; a place that hides the headers is not listed."""
    own = 'proxy_set_header X-Request-Start "t=${msec}";'
    hidden = " ".join(f"proxy_hide_header {name};" for name in ANSWER_HEADERS)
    handed = "proxy_pass http://127.0.0.1:@APP@;"
    one = tree(
        tmp_path,
        f"""
    location / {{ {handed} }}
    location /own {{ {own} {handed} }}
    location /emptied {{ proxy_set_header X-Request-Start ""; {handed} }}
    location /hidden {{ {own} {hidden} {handed} }}
    location /inner/ {{ {own} location /inner/a {{ {handed} }} }}
""",
    )
    with running(one):
        assert one.install("--yes")[0] == 0
        output = one.uninstall()[1].partition("Clients get the headers")[2].partition("Left as it is")[0]
        locations = re.findall(r"^  - .*inside location (\S+)", output, re.M)
        assert locations == ["/own", "/inner/a"]


def test_an_edited_list_of_trusted_peers_is_in_the_backup(tmp_path: Path) -> None:
    one = tree(tmp_path)
    with running(one):
        assert one.install("--yes")[0] == 0
        trusted = one.etc / "sojourn" / "trusted.conf"
        trusted.write_text("10.0.0.7 1;\n")
        code, output = one.uninstall("--yes")
        assert code == 0
        assert str(trusted) in output
        assert not trusted.exists()
        copies = [path.read_text() for path in (tmp_path / "backups").rglob("trusted.conf")]
        assert "10.0.0.7 1;\n" in copies


def test_a_list_of_trusted_peers_that_was_there_before_remains(tmp_path: Path) -> None:
    one = tree(tmp_path)
    (one.etc / "sojourn").mkdir()
    (one.etc / "sojourn" / "trusted.conf").write_text("10.0.0.7 1;\n")
    with running(one):
        before = one.contents()
        assert one.install("--yes")[0] == 0
        assert (one.etc / "sojourn" / "trusted.conf").read_text() == "10.0.0.7 1;\n"
        assert one.uninstall("--yes")[0] == 0
        assert one.contents() == before


def test_a_newer_version_replaces_the_files_without_edits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = tree(tmp_path)
    files = use_case.include_files()
    with running(one):
        assert one.install("--yes")[0] == 0
        newer = {name: content + b"\n" for name, content in files.items()}
        monkeypatch.setattr(use_case, "include_files", lambda: newer)
        trusted = one.etc / "sojourn" / "trusted.conf"
        trusted.write_text("10.0.0.7 1;\n")
        code, output = one.install("--yes")
        assert code == 0, output
        assert (one.etc / "sojourn" / "sojourn.conf").read_bytes() == newer["sojourn.conf"]
        assert trusted.read_text() == "10.0.0.7 1;\n"
        assert str(trusted) in output
        assert one.install("--yes")[1].startswith("Nothing to install")
        assert one.uninstall("--yes")[0] == 0
        assert not (one.etc / "sojourn").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run nginx as another user")
def test_another_user_than_root_sees_the_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = tree(tmp_path)
    program = nginx_program()
    assert program is not None
    as_other = tmp_path / "nginx-as-other-user"
    as_other.write_text(f'#!/bin/sh\nexec setpriv --reuid=65534 --regid=65534 --clear-groups {program.path} "$@"\n')
    as_other.chmod(0o755)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    assert "13: Permission denied" in (replace(program, path=str(as_other)).refusal(one.conf) or "")
    monkeypatch.setattr(use_case, "nginx_program", lambda: replace(program, path=str(as_other)))
    before = one.contents()
    code, output = one.install()
    assert code == 0, output
    assert "include sojourn/sojourn_proxy.conf" in output
    code, output = one.install("--yes")
    assert (code, one.contents()) == (1, before)
    assert "root" in output


def test_lines_that_were_added_by_hand_stay_with_their_folder(tmp_path: Path) -> None:
    one = tree(tmp_path)
    with running(one):
        assert one.install("--yes")[0] == 0
        one.conf.write_text(
            one.conf.read_text().replace(
                "include sojourn/sojourn.conf; # sojourn: installed", "include sojourn/sojourn.conf;"
            )
        )
        code, output = one.uninstall("--yes")
        assert code == 0, output
        assert "include sojourn/sojourn.conf;" in one.conf.read_text()
        assert (one.etc / "sojourn" / "sojourn.conf").is_file()


def test_a_folder_of_another_version_is_not_overwritten(tmp_path: Path) -> None:
    one = tree(tmp_path)
    (one.etc / "sojourn").mkdir()
    (one.etc / "sojourn" / "sojourn.conf").write_text("# mine\n")
    with running(one):
        before = one.contents()
        code, output = one.install("--yes")
        assert (code, one.contents()) == (1, before)
        assert str(one.etc / "sojourn" / "sojourn.conf") in output


def test_nginx_that_does_not_run(tmp_path: Path) -> None:
    one = tree(tmp_path)
    with apps_of(one):
        before = one.contents()
        code, output = one.install("--yes")
        assert code == 0, output
        assert one.contents() != before
        assert one.uninstall("--yes")[0] == 0
        assert one.contents() == before


def test_an_nginx_without_njs_gets_the_plain_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = tree(tmp_path)
    program = nginx_program()
    assert program is not None
    of_this = replace(program, built_with={**program.built_with, "--modules-path": str(tmp_path / "modules")})
    monkeypatch.setattr(use_case, "nginx_program", lambda: of_this)
    with running(one) as received:
        before = one.contents()
        code, output = one.install("--yes")
        assert code == 0, output
        text = one.conf.read_text()
        assert "include sojourn/sojourn_without_njs.conf; # sojourn" in text
        assert "load_module" not in text
        row = row_of_request(one)
        assert received[-1]["x-request-start"] == [f"t={row['request_start']}"]
        assert one.uninstall("--yes")[0] == 0
        assert one.contents() == before


def test_without_nginx_the_change_is_shown_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = tree(tmp_path)
    monkeypatch.setattr(use_case, "nginx_program", lambda: None)
    before = one.contents()
    code, output = one.install()
    assert code == 0
    assert "+            include sojourn/sojourn_proxy.conf; # sojourn: installed" in output
    code, output = one.install("--yes")
    assert (code, one.contents()) == (1, before)


def test_the_log_is_rotated_as_the_distribution_rotates_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = tree(tmp_path)
    rules = tmp_path / "logrotate.d"
    rules.mkdir()
    own = "/var/log/nginx/*.log {\n\tdaily\n\tpostrotate\n\t\tinvoke-rc.d nginx rotate\n\tendscript\n}\n"
    (rules / "nginx").write_text(own)
    monkeypatch.setattr(rotation, "RULES", rules)
    program = nginx_program()
    assert program is not None
    of_this = replace(program, built_with={**program.built_with, "--conf-path": str(one.conf)})
    monkeypatch.setattr(use_case, "nginx_program", lambda: of_this)
    with running(one):
        assert one.install("--yes")[0] == 0
        assert (rules / "sojourn").read_text() == own.replace("/var/log/nginx/*.log", str(one.log))
        assert one.uninstall("--yes")[0] == 0
        assert [path.name for path in rules.iterdir()] == ["nginx"]
        (rules / "nginx").write_text(own.replace("*.log", "*.log " + os.path.dirname(one.log) + "/*.jsonl"))
        assert one.install("--yes")[0] == 0
        assert [path.name for path in rules.iterdir()] == ["nginx"]


@pytest.mark.parametrize(
    ("prepare", "part"),
    [
        (lambda one: one.conf.unlink(), "no such file"),
        (lambda one: one.conf.write_text("server { listen 80; }\n"), "without http"),
        (lambda one: one.conf.write_text("http { server { listen nonsense:x; } }\n"), "nginx refuses"),
        (lambda one: one.conf.write_text("http {\n"), "ends within"),
    ],
)
def test_rejects_what_it_cannot_change(tmp_path: Path, prepare: Callable[[Tree], object], part: str) -> None:
    one = tree(tmp_path)
    prepare(one)
    for run in (one.install, one.uninstall):
        code, output = run("--yes")
        assert code in (0, 1)
        assert "Traceback" not in output
    code, output = one.install("--yes")
    assert code == 1
    assert part in output


def test_rejects_a_header_that_has_no_choice(tmp_path: Path) -> None:
    one = tree(tmp_path)
    assert one.install("--keep", "Host")[0] == 2
    assert one.install("--keep", "traceparent", "--replace", "traceparent")[0] == 2
