"""The store removes queries and the last part of addresses from lines, as the formatting of `sojourn` does."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from incoming_support import answer, send
from sojourn.model.redaction import SWITCH, network_of, path_of, redacted_text, redacting
from sojourn.store import connect
from sojourn.store.client import Store

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


@pytest.fixture
def store(store_dsn: str) -> Iterator[Store]:
    with connect(store_dsn) as opened:
        yield opened


def stored(store: Store, column: str, values: list[str], *, redact: bool = True) -> list[str]:
    """The column of the rows of lines with these values."""
    lines = [json.dumps({**SOUND, "request_id": f"{n:03}", column: value}).encode() for n, value in enumerate(values)]
    store.client.command("TRUNCATE TABLE requests")
    send(store, "incoming", lines, redact=redact)
    return [value for (value,) in answer(store, f"SELECT {column} FROM requests ORDER BY request_id")]


def test_the_store_and_sojourn_cut_queries_alike(store: Store) -> None:
    assert stored(store, "uri", list(URIS)) == list(URIS.values())
    assert {uri: path_of(uri) for uri in URIS} == URIS


def test_the_store_and_sojourn_cut_addresses_alike(store: Store) -> None:
    assert stored(store, "remote_addr", list(ADDRESSES)) == list(ADDRESSES.values())
    assert {address: network_of(address) for address in ADDRESSES} == ADDRESSES


@pytest.mark.parametrize("address", ["::FFFF:1.2.3.4", "64:ff9b::203.0.113.77"])
def test_the_store_cuts_ipv6_addresses_with_a_dotted_end(store: Store, address: str) -> None:
    """nginx writes such an address in hexadecimal; other sources of the log may not."""
    assert network_of(address) in ("::", "64:ff9b::")
    assert stored(store, "remote_addr", [address]) == [network_of(address)]


def test_lines_that_cannot_be_read_are_redacted_alike(store: Store) -> None:
    send(store, "incoming", [line.encode() for line in DEAD])
    assert [raw for (raw,) in answer(store, "SELECT raw FROM dead_letters ORDER BY position")] == list(DEAD.values())
    assert {line: redacted_text(line) for line in DEAD} == DEAD


def test_a_line_says_whether_it_is_redacted(store: Store) -> None:
    assert stored(store, "uri", list(URIS), redact=False) == list(URIS)
    assert stored(store, "remote_addr", list(ADDRESSES), redact=False) == list(ADDRESSES)
    send(store, "incoming", [line.encode() for line in DEAD], redact=False)
    assert [raw for (raw,) in answer(store, "SELECT raw FROM dead_letters ORDER BY position")] == list(DEAD)


@pytest.mark.parametrize(("said", "holds"), [("off", False), ("OFF", False), ("fals", True), ("", True), (None, True)])
def test_a_slip_in_the_switch_gives_nothing_away(
    monkeypatch: pytest.MonkeyPatch, said: str | None, holds: bool
) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    if said is not None:
        monkeypatch.setenv(SWITCH, said)
    assert redacting() == holds
