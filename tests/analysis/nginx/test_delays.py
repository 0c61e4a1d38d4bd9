"""The directives of a configuration that delay requests outside the app."""

from __future__ import annotations

from pathlib import Path

import pytest
from sojourn.model.errors import CaptureError
from sojourn.nginx.delays import delaying_directives

SERVER = """
limit_req_zone $binary_remote_addr zone=few:64k rate=2r/s;
server {{
    {server}
    location / {{ {location} }}
}}
"""


def names(tmp_path: Path, location: str, server: str = "") -> dict[str, list[str]]:
    """Return phase -> names of the directives."""
    conf = tmp_path / "site.conf"
    conf.write_text(SERVER.format(server=server, location=location))
    return {
        phase: [each.split("`")[1] for each in named] for phase, named in delaying_directives(conf).items() if named
    }


@pytest.mark.parametrize(
    ("location", "phases"),
    [
        ("auth_request /login;", {"before": ["auth_request"], "after": ["auth_request"]}),
        ("auth_request off;", {}),
        ("limit_req zone=few burst=5;", {p: ["limit_req"] for p in ("before", "after", "limited")}),
        ("limit_req zone=few burst=5 nodelay;", {}),
        ("limit_req zone=few;", {}),
        ("proxy_cache_lock on;", {p: ["proxy_cache_lock"] for p in ("before", "after", "locked")}),
        ("fastcgi_cache_lock off;", {}),
        ("mirror /copy; slice 1m; limit_rate 10k;", {"after": ["mirror", "slice", "limit_rate"]}),
        ("mirror off; slice 0; limit_rate 0;", {}),
        ("proxy_pass http://$name:80;", {"after": ["proxy_pass"]}),
        ("proxy_pass http://app/$request_uri;", {"after": ["proxy_pass"]}),
        ("proxy_pass http://app;", {}),
        ("proxy_buffering off; proxy_request_buffering off;",
         {"body": ["proxy_buffering"], "service": ["proxy_request_buffering"]}),
        ("proxy_buffering on; proxy_request_buffering on;", {}),
    ],
)  # fmt: skip
def test_directives_by_phase(tmp_path: Path, location: str, phases: dict[str, list[str]]) -> None:
    assert names(tmp_path, location) == phases


def test_directives_have_their_places(tmp_path: Path) -> None:
    (tmp_path / "more.conf").write_text("\n\nauth_request /login;\n")
    conf = tmp_path / "site.conf"
    conf.write_text("server {\n    include more.conf;\n    proxy_cache_lock on;\n}\n")
    before = delaying_directives(conf)["before"]
    assert before == (f"`auth_request` ({tmp_path}/more.conf:3)", f"`proxy_cache_lock` ({conf}:3)")


def test_configuration_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="cannot be read"):
        delaying_directives(tmp_path / "nginx.conf")
