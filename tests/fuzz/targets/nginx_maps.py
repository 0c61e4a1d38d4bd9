"""The regular expressions of sojourn_variables.conf: a traceparent that is kept is one to OpenTelemetry, a request id
holds nothing that breaks a line or a header, and Server-Timing has figures of the app's own, in milliseconds.

nginx takes them for PCRE, this for Python's: they have in common what is used there. A line is a header's value.
"""

from __future__ import annotations

import re
from decimal import MAX_PREC, Context, Decimal
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from random import Random

from opentelemetry.trace import get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from fuzz import nasty

PACKAGES: tuple[str, ...] = ()
_CONF = (Path(__file__).parents[3] / "nginx/sojourn_variables.conf").read_text("utf-8")
_W3C = TraceContextTextMapPropagator()


def _map(source: str) -> list[tuple[re.Pattern[str], str]]:
    """Return the regular expressions of the map of a source, in their order, and the value of each."""
    blocks = re.findall(rf"^map {re.escape(source)} \$\w+ \{{(.*?)^\}}", _CONF, re.S | re.M)
    matches = [pair for block in blocks for pair in re.findall(r'"~((?:[^"\\]|\\.)*)"\s+(\S+);', block)]
    assert matches, source
    return [(re.compile(pattern), value) for pattern, value in matches]


((_ID_REFUSED, _),) = _map("$http_x_request_id")
((_PARENT_REFUSED, _),) = _map("$http_traceparent")
(_MILLISECONDS,) = _map("$sojourn_queueing_delay")
_URI, _CLIENT = _map("$request_uri"), _map("$remote_addr")
assert _map("$sojourn_service_time") == [_MILLISECONDS]


def check(data: bytes) -> None:
    """Every map gets every value."""
    for value in data.decode("latin-1").replace("\0", "").replace("\r", "").split("\n")[:10]:
        _check_parent(value)
        if value and not _ID_REFUSED.search(value):
            assert re.fullmatch(r"[0-9A-Za-z._~:=+/@-]{1,128}", value), value
        _check_timing(value)
        path = _mapped(_URI, value, default="")
        assert path == re.split("[?#]", value)[0], (value, path)
        _check_network(value)


def _mapped(pairs: list[tuple[re.Pattern[str], str]], value: str, default: str) -> str:
    for pattern, result in pairs:
        if outcome := pattern.search(value):
            return re.sub(r"\$([0-9])", lambda group, result=outcome: result[int(group[1])] or "", result)  # type: ignore[misc]
    return default


def _check_parent(value: str) -> None:
    if not value or _PARENT_REFUSED.search(value):
        return
    context = get_current_span(_W3C.extract({"traceparent": value})).get_span_context()
    assert context.is_valid, value
    assert f"{context.trace_id:032x}" in value
    assert f"{context.span_id:016x}" in value


def _check_timing(value: str) -> None:
    shown = _mapped([_MILLISECONDS], value, default="")
    if shown:
        assert re.fullmatch(r"(?:0|[1-9][0-9]*)\.[0-9]{3}", shown), (value, shown)
        assert Decimal(shown) == Decimal(value).scaleb(3, Context(prec=MAX_PREC)), (value, shown)
    else:
        assert not re.fullmatch(r"(?:0|[1-9][0-9]*)\.[0-9]{6}", value), value


def _check_network(value: str) -> None:
    """What is kept of a client's address, as nginx writes it, is its network and no more."""
    try:
        address = ip_address(value)
    except ValueError:
        return
    if "%" in value:  # nginx writes addresses without a zone
        return
    mapped = getattr(address, "ipv4_mapped", None)
    written = f"::ffff:{mapped}" if mapped else str(address)
    kept = _mapped(_CLIENT, written, default="")
    if mapped or address.version == 4:
        assert kept.removeprefix("::ffff:") == str(ip_network((mapped or address, 24), strict=False)[0]), (
            written,
            kept,
        )
    elif written.startswith("::"):  # of unassigned addresses, less than the network is kept
        assert kept == "::", (written, kept)
    else:
        assert ip_address(kept) == ip_network((address, 48), strict=False)[0], (written, kept)


def generated(rng: Random) -> bytes:
    """A traceparent, an id, or a figure of the app's, with something changed."""
    kind = rng.randrange(5)
    if kind == 4:
        bits = rng.getrandbits(128) & rng.choice((-1, 0xFFFF << 112 | 0xFFFF, 0xFFFFFFFF, 0xFF00FF << 90 | 1))
        address = rng.choice((IPv6Address(bits), IPv4Address(bits & 0xFFFFFFFF), f"/a{rng.choice('?#%')}{bits}"))
        return str(address).encode()
    if kind < 2:
        version, flags = rng.choice(("00", "00", "01", "ff", "cc", "0")), rng.choice(("01", "00", "ff", "0", "zz"))
        trace, span = rng.choice((rng.randrange(1 << 128), 0)), rng.choice((rng.randrange(1 << 64), 0))
        rest = rng.choice(("", "", "-", "-x", "-\u00e9", " "))
        value = f"{version}-{trace:032x}-{span:016x}-{flags}{rest}"
    elif kind == 2:
        value = rng.choice((nasty.text(rng), "a" * rng.choice((1, 127, 128, 129)), "a.b:c=d+e/f@g-h_i~j", "%0d%0a"))
    else:
        value = rng.choice(
            (f"{rng.uniform(0, 10 ** rng.randrange(-6, 6)):.6f}", nasty.number(rng), "0.000000", "00.100000")
        )
    data = value.encode("utf-8", "surrogatepass")
    return nasty.damaged(data, rng, 1) if rng.random() < 0.3 else data
