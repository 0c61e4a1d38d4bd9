"""The doctor on configurations with the lean record: what is in order, and what belongs to the other record."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from apps_behind import nginx_before
from doctor_support import Laid
from sojourn.doctor.doctor import diagnose
from sojourn_lab.runtime.nginx import Nginx

NO_NGINX = Nginx.why_unavailable()
pytestmark = pytest.mark.skipif(NO_NGINX is not None, reason=NO_NGINX or "")

SHOP = Path(__file__).parents[3] / "docs/examples/shop.jsonl.gz"
LOG = "include sojourn/sojourn_lean.conf;\n    access_log @FOLDER@/access.jsonl sojourn;"
APP = "proxy_pass http://127.0.0.1:9;"
LEAN_LOCATION = f"location / {{ {APP} include sojourn/sojourn_lean_proxy.conf; }}"


def lean_conf(folder: Path, server: str = LEAN_LOCATION, log: str = LOG) -> Laid:
    return nginx_before(folder, "proxy", server, log)


def test_nothing_is_wrong(tmp_path: Path) -> None:
    conf = lean_conf(tmp_path / "a")
    assert conf.accepted() == ""
    diagnosis = conf.diagnosed()
    assert diagnosis.findings == []
    assert any("stamped, once" in sentence for sentence in diagnosis.checked)


def test_fix_is_of_the_record_that_is_included(tmp_path: Path) -> None:
    conf = lean_conf(tmp_path / "a", f"{LEAN_LOCATION} location /b {{ {APP} }}")
    (finding,) = conf.diagnosed().findings
    assert finding.code == "stamp-missing"
    assert "include sojourn/sojourn_lean_proxy.conf;" in finding.fix
    conf.apply(finding.edits)
    assert conf.accepted() == ""
    assert conf.diagnosed().findings == []


def test_stamp_of_the_user(tmp_path: Path) -> None:
    """A second stamp, and one of another variable than the log has: the fixes use the variable of the lean record."""
    own = f"location /c {{ {APP} proxy_set_header X-Request-Start t=$msec; }}"
    conf = lean_conf(tmp_path / "a", f"{LEAN_LOCATION} {own}")
    for _ in range(3):
        findings = [each for each in conf.diagnosed().findings if each.edits]
        if not findings:
            break
        conf.apply(findings[0].edits)
        assert conf.accepted() == ""
    assert conf.diagnosed().findings == []
    assert "t=$sojourn_start" in conf.path.read_text()


@pytest.mark.parametrize(
    ("location", "log", "right"),
    [
        ("sojourn_proxy.conf", LOG, "sojourn_proxy.conf and sojourn_server_timing.conf to sojourn.conf"),
        ("sojourn_lean_proxy.conf", LOG.replace("_lean", ""), "sojourn_lean_proxy.conf to sojourn_lean.conf"),
    ],
)
def test_files_of_different_records(tmp_path: Path, location: str, log: str, right: str) -> None:
    conf = lean_conf(tmp_path / "a", f"location / {{ {APP} include sojourn/{location}; }}", log)
    refused = next(each for each in conf.diagnosed().findings if each.code == "nginx-refuses")
    assert "unknown" in refused.what
    assert right in refused.why


def test_balancer_in_front(tmp_path: Path) -> None:
    conf = lean_conf(tmp_path / "a", f"set_real_ip_from 10.0.0.0/8; {LEAN_LOCATION}")
    (finding,) = conf.diagnosed().findings
    assert (finding.code, finding.severity) == ("inbound-untrusted", "info")
    assert "lean record" in finding.what


def test_a_lean_log_is_in_order(tmp_path: Path) -> None:
    """Its requests have no ids, which is a note: they are identified. Without the connection it is a warning."""
    records = [json.loads(line) for line in gzip.decompress(SHOP.read_bytes()).splitlines()[:600] if line[:1] == b"{"]
    lines = [
        {**each, "request_id": "", "connection": str(number), "connection_requests": "1"}
        for number, each in enumerate(records)
    ]
    severities = []
    for key in ("request_id", "connection"):
        log = tmp_path / f"{key}.jsonl"
        log.write_text("".join(json.dumps({**each, key: ""}) + "\n" for each in lines))
        severities += [(each.code, each.severity) for each in diagnose(str(log)).findings if each.code == "ids-missing"]
    assert severities == [("ids-missing", "info"), ("ids-missing", "warning")]
