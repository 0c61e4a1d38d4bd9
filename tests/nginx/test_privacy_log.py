"""Personal data in the log: a path and a network, unless redaction is off."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from nginx_support import LOCATION, PROXY, app_upstream, get, logged
from nginx_upstream import Upstream
from sojourn_lab.runtime.nginx import Nginx

SECRET = "s3cr3t-t0k3n"
# The peer is always 127.0.0.1; with these nginx takes the client's address from a header, and writes it its own way.
REALIP = "set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For;"


def line_of(nginx: Nginx) -> str:
    return nginx.access_log.read_text(errors="replace")


TARGETS: dict[bytes, str] = {
    b"/": "/",
    b"/login?password=" + SECRET.encode(): "/login",
    b"/a?b?c=" + SECRET.encode() + b"#d": "/a",
    b"/a/%3F?" + SECRET.encode(): "/a/%3F",
    b"/?" + SECRET.encode(): "/",
    b"/a?": "/a",
    b"//x/../y?" + SECRET.encode(): "//x/../y",
    b"http://shop.example/abs?" + SECRET.encode(): "/abs",
    b"/\xff?" + SECRET.encode(): "/\ufffd",
}
ADDRESSES = {
    "203.0.113.77": "203.0.113.0",
    "10.1.2.3": "10.1.2.0",
    "2001:db8:1:2:3:4:5:6": "2001:db8:1::",
    "2001:db8:1::77": "2001:db8:1::",
    "2001:db8::77": "2001:db8::",
    "2001:0:0:4:5:6:7:8": "2001::",
    "2001:DB8:ABCD:1::": "2001:db8:abcd::",
    "fe80::1": "fe80::",
    "::1": "::",
    "::2:3:4:5:6:7": "::",
    "::ffff:203.0.113.77": "::ffff:203.0.113.0",
    "64:ff9b::203.0.113.77": "64:ff9b::",
}


def test_the_query_is_not_in_the_log(shop: Callable[..., Nginx], app: Upstream) -> None:
    nginx = shop()
    for target in TARGETS:
        get(nginx, target)
    assert [row["uri"] for row in logged(nginx, len(TARGETS))] == list(TARGETS.values())
    assert SECRET not in line_of(nginx)
    # The app gets the full URI: only the log is redacted.
    assert [SECRET in request.path for request in app.requests] == [SECRET.encode() in target for target in TARGETS]


def test_an_address_becomes_a_network(shop: Callable[..., Nginx]) -> None:
    nginx = shop(http=REALIP)
    for reported in ADDRESSES:
        get(nginx, headers=[("X-Forwarded-For", reported)])
    networks = [row["remote_addr"] for row in logged(nginx, len(ADDRESSES))]
    # nginx itself may write a mapped address without its prefix.
    for network, expected in zip(networks, ADDRESSES.values(), strict=True):
        assert network in {expected, expected.removeprefix("::ffff:")}


def test_a_request_that_never_was_one_is_redacted_too(shop: Callable[..., Nginx]) -> None:
    nginx = shop(f"set $sojourn_redact off; {LOCATION}")  # set in a server: it is not reached by what nginx refuses
    get(nginx, f"/x?{SECRET} y".encode())
    (row,) = logged(nginx)
    assert row["status"] == "400"
    assert SECRET not in line_of(nginx)


@pytest.mark.parametrize(
    ("server", "http"),
    [
        (f"location / {{ set $sojourn_redact off; {PROXY} }}", ""),
        (f"set $sojourn_redact off; {LOCATION}", ""),
        (LOCATION, 'map "" $sojourn_redact { default off; }'),
    ],
    ids=["location", "server", "http"],
)
def test_one_line_keeps_them_whole(shop: Callable[..., Nginx], server: str, http: str) -> None:
    nginx = shop(server, http=http)
    get(nginx, "/a?b=c#d")
    (row,) = logged(nginx)
    assert (row["uri"].split("#")[0], row["remote_addr"]) == ("/a?b=c", "127.0.0.1")


@pytest.mark.parametrize("value", ["off", "OFF", "Off"])
def test_redaction_off_logs_any_uri_and_address_in_full(shop: Callable[..., Nginx], value: str) -> None:
    nginx = shop(http=f'{REALIP} map "" $sojourn_redact {{ default {value}; }}')
    addresses = ["203.0.113.77", "2001:db8:1:2:3:4:5:6", "fe80::1", "::1"]
    for address in addresses:
        get(nginx, b"/a|b?\xff|off", headers=[("X-Forwarded-For", address)])
    rows = logged(nginx, len(addresses))
    assert [(row["uri"], row["remote_addr"]) for row in rows] == [("/a|b?\ufffd|off", each) for each in addresses]


@pytest.mark.parametrize("slip", ["no", '""', "|off", "off|", "offf", '"off "'])
def test_a_slip_in_the_switch_gives_nothing_away(shop: Callable[..., Nginx], slip: str) -> None:
    nginx = shop(f"location / {{ set $sojourn_redact {slip}; {PROXY} }}")
    get(nginx, f"/a?{SECRET}|off")
    (row,) = logged(nginx)
    assert SECRET not in line_of(nginx)
    assert row["remote_addr"] == "127.0.0.0"
    if "|" not in slip:
        assert row["uri"] == "/a"


@pytest.mark.parametrize(
    ("http", "uri", "remote_addr"),
    [
        ('map "" $sojourn_uri { default ""; } map "" $sojourn_client { default ""; }', {""}, {""}),
        (
            'map $request_uri $sojourn_uri { default $request_uri; "~^/reset/" /reset; "~^([^?#]*)[?#]" $1; }'
            'split_clients "key$remote_addr" $sojourn_client { 25% a; 25% b; 25% c; * d; }',
            {"/reset"},
            {"a", "b", "c", "d"},
        ),
    ],
    ids=["left out", "cut and hashed"],
)
def test_less_still_as_the_guide_says(
    shop: Callable[..., Nginx], http: str, uri: set[str], remote_addr: set[str]
) -> None:
    nginx = shop(http=http)
    get(nginx, "/reset/8f3b?b=c")
    (row,) = logged(nginx)
    assert row["uri"] in uri
    assert row["remote_addr"] in remote_addr


def test_headers_that_hold_secrets_are_in_no_log(shop: Callable[..., Nginx], app: Upstream) -> None:
    nginx = shop()
    names = ["Cookie", "Authorization", "Proxy-Authorization", "Referer", "User-Agent", "X-Api-Key", "X-Forwarded-For"]
    get(nginx, headers=[(name, SECRET) for name in names])
    logged(nginx)
    assert SECRET not in line_of(nginx)
    assert SECRET not in nginx.error_log_text()
    assert app.requests[0].value("authorization") == SECRET


def test_after_several_rewrites_the_log_has_the_path_of_the_client(serve: Callable[..., Nginx], app: Upstream) -> None:
    server = f"rewrite ^/old/(.*)$ /new/$1?token={SECRET} last; location /new/ {{ {PROXY} }}"
    nginx = serve(server, http=app_upstream(app.address))
    get(nginx, f"/old/shoes?size={SECRET}")
    (row,) = logged(nginx)
    assert row["uri"] == "/old/shoes"
    assert SECRET not in line_of(nginx)
