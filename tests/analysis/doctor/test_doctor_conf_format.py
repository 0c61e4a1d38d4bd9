"""A log is read in the format that the configuration beside it names, or in that of --log-format."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from sojourn.cli import app
from sojourn.doctor.doctor import diagnose
from sojourn.doctor.findings import Diagnosis
from sojourn.model.errors import SojournError
from test_doctor_log import log
from typer.testing import CliRunner

REQUESTS = 400
ODD = (
    "$status~$request_time~$upstream_response_time~$upstream_header_time~$upstream_connect_time~$msec~$upstream_addr~"
    '"$request"'
)
JSON = '{"s":"$status","a":"$request_time","b":"$upstream_response_time","c":"$msec","d":"$upstream_addr"}'
CONF = """\
events { worker_connections 4096; }
http {
  log_format odd '%(odd)s';
  log_format short '$request_time;$status;$msec';
  log_format keys escape=json '%(json)s';
  access_log /var/log/nginx/odd.log %(name)s;
  upstream app { server 10.0.0.5:8000; }
  server {
    listen 80;
    location / { proxy_pass http://app; }
    location /short/ { access_log /var/log/nginx/short.log short; proxy_pass http://app; }
  }
}
"""


def odd_line(number: int) -> str:
    header = 0.190 + 0.001 * (number % 7)
    end = 1767225600 + 0.5 * number
    return (
        f'200~{header + 0.01:.3f}~{header:.3f}~{header:.3f}~0.004~{end:.3f}~10.0.0.5:8000~"GET /a{number % 3} HTTP/1.1"'
    )


def json_line(number: int) -> str:
    values = {"s": "200", "a": "0.200", "b": "0.190", "c": f"{1767225600 + 0.5 * number:.3f}", "d": "10.0.0.5:8000"}
    return json.dumps(values)


def written(path: Path, line: Callable[[int], str] = odd_line) -> str:
    text = "".join(f"{line(number)}\n" for number in range(REQUESTS)).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return str(path)


def conf(folder: Path, name: str = "odd") -> str:
    path = folder / "nginx.conf"
    path.write_text(CONF % {"odd": ODD, "json": JSON, "name": name})
    return str(path)


def formats(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    return [(each.severity, each.what) for each in diagnosis.findings if each.code == "log-format"]


@pytest.mark.parametrize("name", ["odd.log", "odd.log.1", "odd.log-20260131.gz", "another.log"])
def test_reads_the_log_in_the_format_of_the_configuration(tmp_path: Path, name: str) -> None:
    """By the name of its file, also a rotated one; or as the only format that its lines have."""
    source = written(tmp_path / name)
    diagnosis = diagnose([source, conf(tmp_path)], somaxconn=4096)
    assert formats(diagnosis) == [("info", f"{source} is nginx's log_format odd.")]
    assert diagnosis.connects == {"10.0.0.5:8000": (REQUESTS, pytest.approx(0.004))}
    assert f"{REQUESTS} of {REQUESTS} lines could be used" in diagnosis.checked
    assert [severity for severity, _ in formats(diagnose(source))] == ["error"]


def test_reads_json_by_the_keys_of_the_configuration(tmp_path: Path) -> None:
    source = written(tmp_path / "other.log", json_line)
    diagnosis = diagnose([conf(tmp_path, "keys"), source], somaxconn=4096)
    assert formats(diagnosis) == [("info", f"{source} is nginx's log_format keys.")]
    assert f"{REQUESTS} of {REQUESTS} lines could be used" in diagnosis.checked


def test_lines_of_another_format_than_the_configuration_names(tmp_path: Path) -> None:
    source = written(tmp_path / "short.log")
    diagnosis = diagnose([source, conf(tmp_path)], somaxconn=4096)
    assert [severity for severity, _ in formats(diagnosis)] == ["error"]
    assert any("do not have the format short" in sentence for sentence in diagnosis.unseen)


def test_a_log_that_no_format_of_the_configuration_fits(tmp_path: Path) -> None:
    source = written(tmp_path / "x.log", lambda number: f"line {number} of another program")
    diagnosis = diagnose([source, conf(tmp_path)], somaxconn=4096)
    assert [severity for severity, _ in formats(diagnosis)] == ["error"]
    assert not any("do not have the format" in sentence for sentence in diagnosis.unseen)


def test_records_of_sojourn_are_read_as_such(tmp_path: Path) -> None:
    source = log(tmp_path / "odd.log")
    diagnosis = diagnose([source, conf(tmp_path)], somaxconn=4096)
    assert formats(diagnosis) == []
    assert "600 of 600 lines could be used" in diagnosis.checked


def test_log_format_of_the_command(tmp_path: Path) -> None:
    source = written(tmp_path / "x.log")
    runner = CliRunner()
    for text in (ODD, f"{conf(tmp_path)}:odd"):
        result = runner.invoke(app, ["doctor", source, "--log-format", text, "--json", "--quiet"])
        document = json.loads(result.stdout)
        assert [each["severity"] for each in document["findings"] if each["code"] == "log-format"] == ["info"]
        assert f"{REQUESTS} of {REQUESTS} lines could be used" in document["checked"]
    diagnosis = diagnose(source, log_format=ODD)
    assert diagnosis.connects == {"10.0.0.5:8000": (REQUESTS, pytest.approx(0.004))}


def test_log_format_is_preferred_to_that_of_the_configuration(tmp_path: Path) -> None:
    """As $request_time is: the second number is the response time of the upstream in this text."""
    source = written(tmp_path / "odd.log")
    other = ODD.replace("$upstream_connect_time", "$other")
    diagnosis = diagnose([source, conf(tmp_path)], somaxconn=4096, log_format=other)
    assert diagnosis.connects == {"10.0.0.5:8000": (REQUESTS, pytest.approx(0.0))}


@pytest.mark.parametrize("text", ["nonsense", "$status $other"])
def test_refuses_a_log_format_that_is_none(tmp_path: Path, text: str) -> None:
    with pytest.raises(SojournError, match="--log-format"):
        diagnose(written(tmp_path / "x.log"), log_format=text)
