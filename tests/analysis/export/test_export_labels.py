"""Values of labels: clients choose none of them, whatever they request."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest
from export_support import exported, histograms_of, samples_of, value_of
from prometheus_server import exporting
from sojourn.export.exporter import Exporter
from sojourn.export.exposition import text_of
from watch_support import EPOCH, given_up, record, until

PLAIN = Path(__file__).parents[3] / "docs" / "examples" / "plain.log.gz"
PATH_BYTES = 7_800  # nginx's default limit of a request line is 8 kB
MEMORY = 400 << 20  # resident, at most; the same log with short paths takes 360 MB with all gauges


def invented(number: int) -> bytes:
    """Return a request of a path that exists nowhere, as long as nginx accepts it, without identifiers."""
    word = f"/{number:06}".translate(str.maketrans("0123456789", "qrstuvwxyz"))
    return record(EPOCH + number / 100, route="", uri=PATH_BYTES // len(word) * word)


def requests_by_route(exporter: Exporter) -> Counter[str]:
    counts: Counter[str] = Counter()
    for name, labels, histogram in histograms_of(exporter):
        if name == "sojourn_response_time_seconds":
            counts[labels[1]] += histogram.count
    return counts


def test_invented_paths_are_one_value_of_the_route(tmp_path: Path) -> None:
    """They take no place of a route that the app names later, and the scrape remains small."""
    log = tmp_path / "access.jsonl"
    routes = {f"/named/{n}": 1 for n in range(100)}
    log.write_bytes(
        b"".join(invented(n) for n in range(1_000))
        + b"".join(record(EPOCH + 10 + n / 100, route=route, uri=route) for n, route in enumerate(routes))
    )
    with exported([log]) as exporter:
        samples = samples_of(exporter)
        assert requests_by_route(exporter) == {"(unnamed)": 1_000, **routes}
        assert len(text_of(exporter)) < 2_000_000
    assert value_of(samples, "sojourn_requests_total") == 1_100
    assert "sojourn_other_label_total" not in {sample.name for sample in samples}


def test_path_that_is_a_route_of_its_service_counts_as_it(tmp_path: Path) -> None:
    """A request without an answer has no X-Route; its path is the route that the app has named before."""
    log = tmp_path / "access.jsonl"
    log.write_bytes(
        record(EPOCH, route="/users/:id", uri="/users/1")
        + record(EPOCH + 1, route="", uri="/users/2?page=3")
        + given_up(EPOCH + 2, 1.0, route="", uri="/users/77")
        + given_up(EPOCH + 3, 1.0, route="", uri="/users/77").replace(b"shop", b"other")
        + given_up(EPOCH + 4, 1.0, route="", uri="/orders")
    )
    with exported([log]) as exporter:
        samples = samples_of(exporter)
        assert requests_by_route(exporter) == {"/users/:id": 3, "(unnamed)": 2}
    assert value_of(samples, "sojourn_abandoned_requests_total", route="/users/:id") == 1
    assert value_of(samples, "sojourn_abandoned_requests_total", service="other", route="(unnamed)") == 1


def test_values_have_120_characters_at_most(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    fields = {"route": "/" + "r" * 500, "upstream_addr": "unix:/" + "u" * 500, "trace_id": "t" * 121}
    lines = b"".join(record(EPOCH + n / 10, **fields) for n in range(40))
    log.write_bytes(lines.replace(b"shop", b"s" * 500))
    with exported([log]) as exporter:
        samples = samples_of(exporter)
        _, labels, histogram = next(each for each in histograms_of(exporter) if each[0].startswith("sojourn_service"))
    assert [len(label) for label in labels] == [120, 120, 120, 3]
    assert labels[1] == "/" + "r" * 118 + "…"
    assert not histogram.exemplars  # a part of a trace id would be another trace's
    # Gauges have the same values as counters.
    assert value_of(samples, "sojourn_requests_in_system", service=labels[0], upstream=labels[2]) >= 0
    assert value_of(samples, "sojourn_workers_needed", service=labels[0]) >= 1


def test_log_that_names_no_route(tmp_path: Path) -> None:
    """Its requests are of one route, and standard error says once how routes get names."""
    log = tmp_path / "access.log"
    log.write_bytes(gzip.decompress(PLAIN.read_bytes()))
    with exporting(tmp_path, str(log), "--from-beginning") as served:
        until(lambda: served.value("sojourn_requests_total") > 1_000)
        count = "sojourn_response_time_seconds_count"
        assert served.value(count, route="(unnamed)") == served.value(count)
        until(lambda: "routes: " in served.errors)
        (note,) = [line for line in served.errors.splitlines() if line.startswith("routes: ")]
        assert "$sojourn_route" in note


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_memory_is_flat_under_invented_paths(tmp_path: Path) -> None:
    """50,000 paths of 7.8 kB are 400 MB of log."""
    log = tmp_path / "access.jsonl"
    with log.open("wb") as writer:
        for number in range(50_000):
            writer.write(invented(number))
        writer.write(record(EPOCH + 501, route="/named", uri="/named"))
    with exporting(tmp_path, str(log), "--from-beginning") as served:
        until(lambda: served.value("sojourn_response_time_seconds_count", route="/named") == 1, 500)
        assert served.value("sojourn_response_time_seconds_count") == 50_001
        assert len(served.scrape()) < 2_000_000
        status = Path(f"/proc/{served.process.pid}/status").read_text(encoding="ascii")
    peak = next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM:"))
    assert peak < MEMORY, f"{peak >> 20} MB"
