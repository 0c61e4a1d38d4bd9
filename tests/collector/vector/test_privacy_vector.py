"""What reaches the store of a client: the agent's programs and the loader redact alike, unless redaction is off."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from sojourn.model.redaction import SWITCH, network_of, path_of, redacted_attributes, redacted_text, redacting
from sojourn.store.log_rows import redacted_rows
from vrl_support import program, run_program

SECRET = "s3cr3t"
SOUND = {"time": "1767225600.123", "request_time": "0.25", "status": "200"}
ADDRESSES = {
    "203.0.113.77": "203.0.113.0",
    "::ffff:203.0.113.77": "::ffff:203.0.113.0",
    "2001:db8:1:2:3:4:5:6": "2001:db8:1::",
    "2001:DB8:1::77": "2001:db8:1::",
    "2001:0:0:4:5:6:7:8": "2001::",
    "1:0:2:3:4:5:6:7": "1:0:2::",
    "0:0:1:2:3:4:5:6": "0:0:1::",
    "::1": "::",
    "::FFFF:1.2.3.4": "::",
    "203.0.113.0": "203.0.113.0",
    "2001:db8:1::": "2001:db8:1::",
    # Not addresses: values that a custom nginx configuration can write, or empty.
    "": "",
    "-": "-",
    "unix:": "unix:",
    "01.2.3.4": "01.2.3.4",
    "1.2.3": "1.2.3",
    "1.2.3.4.5": "1.2.3.4.5",
    "fe80::1%eth0": "fe80::1%eth0",
    "::ffff:1.2.3": "::ffff:1.2.3",
    "3a52ce780950d4d969792a2559cd519d": "3a52ce780950d4d969792a2559cd519d",
}
URIS = {
    f"/login?password={SECRET}": "/login",
    "/a#b?c": "/a",
    "/a?b\nc": "/a",
    "?": "",
    "": "",
    "/ä%3Fb": "/ä%3Fb",
    "/plain": "/plain",
}
# Lines that cannot be read, and what is left of them.
DEAD = {
    f'{{"uri":"/a?t={SECRET}","remote_addr":"203.0.113.77"': '{"uri":"/a?","remote_addr":"203.0.113.0"',
    f'"uri":"/a?t=\\"{SECRET}","x":"?y"': '"uri":"/a?","x":"?"',
    '"remote_addr": "2001:db8:1:2::3","upstream_addr":"10.0.0.1:80, [::1]:80"': (
        '"remote_addr": "2001:db8:1::","upstream_addr":"10.0.0.0:80, [::1]:80"'
    ),
    f'203.0.113.77 - - [01/Jan/2026:12:30:45 +0000] "GET /a?t={SECRET} HTTP/1.1" 200 5': (
        '203.0.113.0 - - [01/Jan/2026:12:30:45 +0000] "GET /a? HTTP/1.1" 200 5'
    ),
    f'{{"key":"url.query","value":{{"stringValue":"{SECRET}"}}}}': '{"key":"url.query","value":{"stringValue":""}}',
    f'{{"url.query":"{SECRET}"}}': '{"url.query":""}',
    "no secret, 1767225600.123 and 1.2.3": "no secret, 1767225600.123 and 1.2.3",
    "\ufffd?\ufffd\\": "\ufffd?\\",
}
ATTRIBUTES: dict[str, Any] = {
    "url.query": SECRET,
    "url.full": f"https://shop.example/a?t={SECRET}",
    "http.target": f"/a?t={SECRET}",
    "url.path": "/a",
    "client.address": "203.0.113.77",
    "network.peer.address": "2001:db8:1:2::3",
    "net.peer.ip": "::ffff:203.0.113.77",
    "user_agent.original": SECRET,
    "http.request.header.authorization": [SECRET],
    "http.request.header.cookie": [SECRET],
    "http.request.header.proxy-authorization": [SECRET],
    "http.response.header.set-cookie": [SECRET],
    "http.user_agent": SECRET,
    "server.address": "203.0.113.10",
    "odd": 7,
}
KEPT = {
    "url.full": "https://shop.example/a",
    "http.target": "/a",
    "url.path": "/a",
    "client.address": "203.0.113.0",
    "network.peer.address": "2001:db8:1::",
    "net.peer.ip": "::ffff:203.0.113.0",
    "server.address": "203.0.113.10",
}


def requests_made(records: list[dict[str, str]]) -> list[Any]:
    events = [{"message": json.dumps({**SOUND, **r}), "file": "/a.jsonl", "host": "h", "offset": 0} for r in records]
    return run_program(program("requests"), events)


def dead_letters_made(lines: list[str]) -> list[str]:
    metadata = {"dropped": {"component_id": "requests", "reason": "abort", "message": "invalid_json"}}
    events = [{"message": line, "host": "h", "file": "/f", "metadata": metadata} for line in lines]
    return [row["raw"] for row in run_program(program("dead_letters"), events)]


def span_made(attributes: dict[str, Any]) -> dict[str, str]:
    times = "\n".join(
        f".{name}_time_unix_nano = parse_timestamp!(.{name}_time_unix_nano, '%+')".replace("'", '"')
        for name in ("start", "end")
    )
    at = "2026-01-01T00:00:00.123456789Z"
    event = {"start_time_unix_nano": at, "end_time_unix_nano": at, "name": "GET", "attributes": attributes}
    (row,) = run_program(times + "\n" + program("spans"), [event])
    return dict(row["attributes"])


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "Off")


def test_the_agent_and_the_loader_cut_queries_and_addresses_alike() -> None:
    produced = requests_made([{"uri": uri} for uri in URIS] + [{"remote_addr": address} for address in ADDRESSES])
    assert [row["uri"] for row in produced[: len(URIS)]] == list(URIS.values())
    assert [row["remote_addr"] for row in produced[len(URIS) :]] == list(ADDRESSES.values())
    assert {uri: path_of(uri) for uri in URIS} == URIS
    assert {address: network_of(address) for address in ADDRESSES} == ADDRESSES
    uris, addresses = [*URIS, *[""] * len(ADDRESSES)], [*[""] * len(URIS), *ADDRESSES]
    loaded = redacted_rows(pa.table({"uri": uris, "remote_addr": addresses}))
    assert loaded["uri"].to_pylist()[: len(URIS)] == list(URIS.values())
    assert loaded["remote_addr"].to_pylist()[len(URIS) :] == list(ADDRESSES.values())


def test_lines_that_cannot_be_read_are_redacted_alike() -> None:
    assert dict(zip(DEAD, dead_letters_made(list(DEAD)), strict=True)) == DEAD
    assert {line: redacted_text(line) for line in DEAD} == DEAD


def test_spans_of_other_instrumentations_are_redacted_alike() -> None:
    assert span_made(ATTRIBUTES) == {**KEPT, "odd": "7"}
    assert redacted_attributes(ATTRIBUTES) == {**KEPT, "odd": 7}


def test_the_switch_keeps_everything(whole: None) -> None:
    (row,) = requests_made([{"uri": "/a?b", "remote_addr": "203.0.113.77"}])
    assert (row["uri"], row["remote_addr"]) == ("/a?b", "203.0.113.77")
    assert span_made({"url.query": "a=b", "client.address": "203.0.113.77"}) == {
        "url.query": "a=b",
        "client.address": "203.0.113.77",
    }


@pytest.mark.parametrize(("said", "holds"), [("off", False), ("OFF", False), ("fals", True), ("", True), (None, True)])
def test_a_slip_in_the_switch_gives_nothing_away(
    monkeypatch: pytest.MonkeyPatch, said: str | None, holds: bool
) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    if said is not None:
        monkeypatch.setenv(SWITCH, said)
    assert redacting() == holds
