"""Installation of the lean record: the same places, other files, and a record that a configuration has already."""

from __future__ import annotations

from pathlib import Path

import pytest
from install_support import PLAIN, conf_text, row_of_request, running, tree, tree_at

OWN = (
    "location / { proxy_set_header X-Request-ID fixed; proxy_set_header traceparent own;"
    " proxy_pass http://127.0.0.1:@APP@; }"
)


def test_installs_and_removes(tmp_path: Path) -> None:
    one = tree(tmp_path)
    before = one.contents()
    with running(one) as received:
        code, output = one.install("--yes", "--record", "lean")
        assert code == 0, output
        row = row_of_request(one, headers={"X-Request-ID": "client", "X-Request-Start": "t=1", "traceparent": "client"})
        sent = received[-1]
    assert sent["x-request-start"] == [f"t={row['request_start']}"]
    assert "x-request-id" not in sent
    assert sent["traceparent"] == ["client"]
    assert "stamp" not in row
    text = one.conf.read_text()
    assert "sojourn/sojourn_lean.conf" in text
    assert "load_module" not in text  # it needs no njs
    assert one.uninstall("--yes")[0] == 0
    assert one.contents() == before


def test_lines_of_the_user_that_it_does_not_replace(tmp_path: Path) -> None:
    """Its include sets no trace context, so the user's line is no duplicate; the user's id is sent and logged."""
    one = tree(tmp_path, OWN)
    with running(one) as received:
        code, output = one.install("--yes", "--record", "lean")
        assert code == 0, output
        assert "traceparent" not in output.partition("Headers that your lines set")[2]
        row = row_of_request(one)
        assert received[-1]["x-request-id"] == [row["request_id"]] == ["fixed"]
        assert received[-1]["traceparent"] == ["own"]


def test_places_that_are_added_later_get_the_record_of_the_others(tmp_path: Path) -> None:
    one = tree(tmp_path)
    with running(one):
        assert one.install("--yes", "--record", "lean")[0] == 0
        new = f"location /new {{ proxy_pass http://127.0.0.1:{one.values['APP']}; }}\n"
        one.conf.write_text(one.conf.read_text().replace("location / {", f"{new}location / {{", 1))
        code, output = one.install("--yes")
        assert code == 0, output
        assert one.conf.read_text().count("sojourn_lean_proxy.conf") == 2
        code, output = one.install("--record", "full")
    assert code == 1
    assert "has the lean record already" in output


def test_asks_which_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = tree(tmp_path)
    monkeypatch.setattr("sojourn.install.command._is_terminal", lambda: True)
    with running(one):
        code, output = one.install("--yes", answers="y\n")
        assert code == 0, output
    assert "the lean record" in output
    assert "sojourn/sojourn_lean.conf" in one.conf.read_text()


def test_request_over_http2_is_not_tried(tmp_path: Path) -> None:
    one = tree_at(tmp_path, {"nginx.conf": conf_text(PLAIN).replace("@PORT@;", "@PORT@ http2;", 1)})
    with running(one):
        code, output = one.install("--yes", "--record", "lean")
    assert code == 0, output
    assert "does not show which one it is" in output
