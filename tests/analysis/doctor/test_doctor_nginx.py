"""Every broken configuration gives its one finding, and the finding's lines mend it; the good one gives none."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from doctor_faults import CONNECTION, FAULTS, GOOD, HIDES, LOG, OWN_LOG, PASS, SOMAXCONN, VERSION, Fault
from doctor_support import laid
from sojourn.capture import nginx_syntax
from sojourn.doctor import diagnose
from sojourn_lab.nginx import Nginx

NO_NGINX = Nginx.why_unavailable()
pytestmark = pytest.mark.skipif(NO_NGINX is not None, reason=NO_NGINX or "")


def test_the_good_configuration_gives_no_finding(tmp_path: Path) -> None:
    conf = laid(tmp_path / "good")
    assert conf.accepted() == ""
    found = conf.diagnosed()
    assert found.findings == []
    assert len(found.checked) == 7
    assert not found.broken


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_broken_configuration(tmp_path: Path, fault: Fault) -> None:
    conf = laid(tmp_path / "broken", fault)
    assert conf.accepted() == ""  # nginx itself has nothing against it
    found = conf.diagnosed(fault.somaxconn)
    assert [(each.code, each.severity) for each in found.findings] == [(fault.code, fault.severity)]
    finding = found.findings[0]
    wanted = conf.filled(fault.line)
    assert any(line.endswith(wanted) for line in finding.fix.splitlines()), finding.fix
    assert str(conf.folder) in finding.where
    assert found.broken == (fault.severity == "error")

    # The fix, applied to the text, mends it; a command mends the machine.
    if finding.how == "run":
        assert conf.diagnosed(max(SOMAXCONN, 65535)).findings == []
        return
    conf.apply(finding.edits)
    assert conf.accepted() == ""
    assert conf.diagnosed(fault.somaxconn).findings == [], conf.path.read_text()


def test_there_are_enough() -> None:
    assert len(FAULTS) >= 12
    assert len({fault.code for fault in FAULTS}) >= 25


OWN_STAMP = 'proxy_set_header X-Request-Start "t=${msec}";'


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('"request_start":"$sojourn_logged_start",', "", "log-keys"),
        ("$sojourn_logged_start", "$msec", "log-stamp"),
    ],
)
def test_a_stamp_and_a_log_of_ones_own(tmp_path: Path, old: str, new: str, code: str) -> None:
    """Without any file of ours, the stamp is sent and logged by one variable in the end."""
    text = re.sub(r"location /api/ \{.*?\}", "", GOOD, flags=re.S).replace(LOG, OWN_LOG.replace(old, new))
    text = re.sub(
        r"location / \{.*?\}",
        " ".join(["location / {", PASS, VERSION, CONNECTION, OWN_STAMP, *HIDES, "}"]),
        text,
        flags=re.S,
    )
    text = text.replace("include sojourn/sojourn.conf;", "").replace("map $uri $sojourn_route", "map $uri $own_route")
    conf = laid(tmp_path / "own", text=text)
    assert conf.accepted() == ""
    (finding,) = conf.diagnosed().findings
    assert finding.code == code
    conf.apply(finding.edits)
    assert conf.accepted() == ""
    assert conf.diagnosed().findings == []


def test_no_configuration_makes_it_stumble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words taken out, doubled and put elsewhere, where nginx is not there to say no."""
    monkeypatch.setattr(nginx_syntax, "_told_by_nginx", lambda _: ([], "nginx does not take it (no)"))
    rng = random.Random(7)
    conf = laid(tmp_path / "a")
    marks = [";", "{", "}", '"', '""', "$", "off", "\x00", "é", "~^(", ""]
    looked = 0
    for _ in range(150):
        text = GOOD
        for fault in rng.sample(FAULTS, 3):
            for old, new in fault.edits:
                text = text.replace(old, new)
        words = re.split(r"(\s+)", text)
        for _ in range(rng.randint(0, 4)):
            words[rng.randrange(len(words))] = rng.choice([*marks, words[rng.randrange(len(words))]])
        conf.path.write_text("".join(words))
        looked += bool(diagnose(str(conf.path), somaxconn=128).findings)
    assert looked > 100
