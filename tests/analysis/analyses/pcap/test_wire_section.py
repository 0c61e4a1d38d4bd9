"""The section of a capture: sentences, tables and charts agree with synthetic frames."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from sojourn.analyses.pcap.charts import (
    SHORTEST,
    agreement_chart,
    agreement_table,
    band_table,
    step_table,
    steps_chart,
    wait_table,
    waits_chart,
)
from sojourn.analyses.pcap.notes import UNPARSED
from sojourn.analyses.pcap.result import Agreed, Joined, WireResult
from sojourn.analyses.pcap.section import wire_section
from sojourn.analyses.pcap.tallies import servers
from sojourn.model.checks import Check
from sojourn.present.pictures import Drawings
from sojourn.present.section import Picture, Section, Table
from sojourn.present.terminal import show
from sojourn.readers.capture.batch import Counts
from sojourn.report.html import report_page
from syrupy.assertion import SnapshotAssertion
from timeline_builder import TimelineBuilder, result_of

HOSTILE = "\x1b[31m<script>alert(1)</script>"


def requests(reports_start: bool = True, **how: Any) -> TimelineBuilder:
    produced = TimelineBuilder()
    for wait in range(100):
        produced.request(wait=wait + 1, reports_start=reports_start, **how)
    return produced


def table(section: Section, start: str) -> Table:
    return next(table for table in section.tables if table.title.startswith(start))


def drawn(result: WireResult) -> Iterator[str]:
    for picture in wire_section(result).pictures:
        yield str(Drawings().of(picture).svg)


# --- sentences


def test_sentence_has_figures_of_known_wait(snapshot: SnapshotAssertion) -> None:
    sentence = wire_section(result_of(requests())).sentence
    assert sentence.startswith("200 connections ")
    assert "waited 50.5 ms (p50), 99.0 ms (p99)" in sentence
    assert sentence == snapshot


def test_sentence_has_bounds_and_note_names_the_log_option(snapshot: SnapshotAssertion) -> None:
    section = wire_section(result_of(requests(reports_start=False)))
    assert "between 0 and 99.1 ms at p99" in section.sentence
    assert len([note for note in section.notes if "--log" in note]) == 1
    assert (section.sentence, section.notes) == snapshot


def test_repeated_refused_and_unanswered_are_counted(snapshot: SnapshotAssertion) -> None:
    produced = requests(client_leg=False)
    produced.request(dropped=2, client_leg=False)
    produced.attempt(syns=1, end="refused")
    produced.attempt(syns=4, end="unanswered")
    section = wire_section(result_of(produced))
    assert re.findall(r"[\d.]+", section.sentence)[:4] == ["103", "2", "1.9", "2"]
    assert section.sentence == snapshot
    ends = dict(row[:2] for row in table(section, "How connections ended").rows)
    assert ends == {
        "closed in order": "101", "refused: a reset in answer to the SYN": "1", "no answer to any SYN": "1",
    }  # fmt: skip


def test_capture_of_unanswered_syns_only(snapshot: SnapshotAssertion) -> None:
    produced = TimelineBuilder()
    produced.attempt(syns=4, end="unanswered")
    result = result_of(produced)
    section = wire_section(result)
    assert re.findall(r"\d+", section.sentence) == ["1", "1", "100", "1"]
    assert section.sentence == snapshot
    assert [picture.key for picture in section.pictures] == ["wire-steps"]
    assert all("<svg" in picture for picture in drawn(result))


@pytest.mark.parametrize(
    ("counts", "numbers"), [(Counts(), []), (Counts(packets=7, other={"udp": 7}), ["7", "7"])], ids=["empty", "udp"]
)
def test_capture_without_tcp(counts: Counts, numbers: list[str], snapshot: SnapshotAssertion) -> None:
    section = wire_section(result_of(TimelineBuilder(), counts=counts))
    assert re.findall(r"\d+", section.sentence) == numbers
    assert section.sentence == snapshot
    assert (section.pictures, section.tables) == ((), ())


def test_connections_older_than_the_capture(snapshot: SnapshotAssertion) -> None:
    section = wire_section(result_of(requests(keepalive=True)))
    assert section.sentence.startswith("200 connections")
    assert section.sentence == snapshot


# --- failures and notes


@pytest.mark.parametrize(
    ("counts", "values"),
    [
        (Counts(packets=99, undecoded={"cut": 3, "ipv6_header": 9}), ("12 of 99 packets", "ipv6 header 9, cut 3")),
        (Counts(packets=75, dropped=25), ("25 packets (25 %)", "tcpdump -B")),
        (Counts(packets=1, damaged={"a.pcap": "cut off"}), ("a.pcap: cut off",)),
    ],
    ids=["undecoded", "dropped", "damaged"],
)  # fmt: skip
def test_unread_packets_are_a_failure(counts: Counts, values: tuple[str, ...], snapshot: SnapshotAssertion) -> None:
    (failure,) = wire_section(result_of(requests(), counts=counts)).failures
    for value in values:
        assert value in failure
    assert failure == snapshot


def test_counts_of_one_are_singular(snapshot: SnapshotAssertion) -> None:
    counts = Counts(packets=1, segments=1, cut=1, dropped=1, undecoded={"link header cut": 1}, tunnels={"gre": 1})
    produced = TimelineBuilder()
    produced.request()
    result = result_of(
        produced, counts=counts, unparsed=dict.fromkeys(UNPARSED, 1), joined=Joined(log=1, by={"tuple": 1})
    )
    changed = result.connections.with_columns(
        protocol=pl.lit("tls"), leg=pl.lit("backend"), endpoint=pl.lit("a"), acks_dropped=pl.lit(1, pl.Int32),
        acks_doubtful=pl.lit(1, pl.Int32), copies=pl.lit(1, pl.Int32), gaps=pl.lit(1, pl.Int32),
        server_zero_windows=pl.lit(1, pl.Int32), syn_retransmissions=pl.lit(1, pl.Int32),
    ).head(1)  # fmt: skip
    result = result_of(
        produced,
        connections=changed,
        counts=counts,
        servers=servers(changed),
        unparsed=result.unparsed,
        joined=result.joined,
    )
    section = wire_section(result)
    text = " ".join([section.sentence, *section.failures, *section.notes])
    assert len(section.notes) > 5
    assert (section.sentence, section.failures, section.notes) == snapshot
    assert re.findall(r"\b1 \w*[^s\W]s\b(?! \()", text.replace("1 was", "").replace("1 has", "")) == []
    assert re.findall(r"\b1 \w+ (?:are|were|have|speak|belong)\b", text) == []


def test_a_poor_join_is_a_failure_and_a_failed_check_replaces_it(snapshot: SnapshotAssertion) -> None:
    joined = Joined(log=200, by={"request_id": 80, "tuple": 20}, unjoined={"not_in_capture": 60, "ambiguous": 40})
    (failure,) = wire_section(result_of(requests(), joined=joined)).failures
    assert re.findall(r"\d+", failure) == ["100", "200", "50", "60", "40"]
    assert failure == snapshot
    check = Check("wire", 0.5, 0.9, "fail", "half of the log is not on the wire")
    assert wire_section(result_of(requests(), joined=joined, checks=(check,))).failures == (check.sentence,)
    assert wire_section(result_of(requests(), joined=joined, checks=(check,)), audited=True).failures == ()
    good = Joined(log=100, by={"request_id": 99}, unjoined={"ambiguous": 1})
    passed = Check("wire", 0.99, 0.9, "pass", "the log and the wire agree")
    section = wire_section(result_of(requests(), joined=good, checks=(passed,)))
    assert section.failures == ()
    assert passed.sentence in section.notes


def test_findings_come_first_among_the_notes_without_duplicates() -> None:
    result = result_of(requests(reports_start=False), findings=("Grave.", "Less so."), notes=("Made so.", "Grave."))
    notes = wire_section(result).notes
    assert notes[:2] == ("Grave.", "Less so.")
    assert len(notes) == len(set(notes))
    assert notes[-1] == "Made so."


def test_unread_packets_are_failures_and_not_notes() -> None:
    counts = Counts(packets=99, undecoded={"cut": 3}, dropped=4, damaged={"a.pcap": "cut off"})
    section = wire_section(result_of(requests(), counts=counts))
    assert len(section.failures) == 3
    assert not [note for note in section.notes for output in ("decoded", "lost", "a.pcap") if output in note]


def test_notes_on_tls_copies_gaps_windows_and_clocks(snapshot: SnapshotAssertion) -> None:
    result = result_of(requests(), negative={"accept_wait": 3}, unparsed={"tls": 10, "http2": 4})
    changed = result.connections.with_columns(
        copies=pl.lit(2, pl.Int32), gaps=pl.lit(3, pl.Int32), server_zero_windows=pl.lit(1, pl.Int32),
        protocol=pl.when(pl.col("connection") < 10).then(pl.lit("tls")).otherwise(pl.lit("http")),
    )  # fmt: skip
    notes = " ".join(wire_section(result_of(requests(), connections=changed)).notes)
    output = ("10 connections speak TLS", "400 packets are duplicates", "600 gaps", "window of 0")
    for text in output:
        assert text in notes
    assert notes == snapshot(name="changed")
    notes = " ".join(wire_section(result).notes)
    assert "4 connections speak HTTP/2" in notes
    assert "accept wait 3" in notes
    assert notes == snapshot(name="unchanged")
    for text in output:
        assert text not in notes


def test_notes_on_loopback_and_short_packets(snapshot: SnapshotAssertion) -> None:
    produced = requests()
    local = result_of(produced).connections.with_columns(server=pl.lit("127.0.0.1"))
    notes = " ".join(wire_section(result_of(produced, connections=local)).notes)
    assert "loopback" in notes
    assert notes == snapshot(name="loopback")
    cut = Counts(packets=99, cut=12)
    notes = " ".join(wire_section(result_of(produced, counts=cut, unparsed={"head_cut": 2})).notes)
    assert "12 packets" in notes
    assert "loopback" not in notes
    assert notes == snapshot(name="cut")
    # Heads are complete: only bodies were cut, which does not affect the figures.
    assert "12 packets" not in " ".join(wire_section(result_of(produced, counts=cut)).notes)


# --- tables


def test_table_of_queues_has_the_kind_of_each_figure() -> None:
    section = wire_section(result_of(requests(acks_dropped=1)))
    rows = {(row[0], row[1]): row for row in table(section, "The queues").rows}
    assert rows["backend accept queue", "known"][3:] == ("100", "1,050", "1,099", "1,100")
    assert rows["backend accept queue", "at least"][4] == "1,000"
    assert rows["backend SYN queue", "known"][4] == "1,000"
    assert ("proxy accept queue", "at most") not in rows


def test_steps_servers_and_agreement() -> None:
    produced = requests(client_leg=False)
    produced.request(dropped=3, client_leg=False)
    agreed = (
        Agreed("upstream_connect_time", 101, 0.0001, 0.0012, 0.0104, 2),
        Agreed("request_time", 0, None, None, None, 0),
    )
    section = wire_section(result_of(produced, agreement=agreed))
    assert [row[0] for row in table(section, "Repeated SYNs").rows] == ["+3 s"]
    servers = table(section, "Servers;")
    assert servers.headings == ("server", "role", "connections", "SYN again", "p99")
    assert servers.rows[0][:4] == ("10.0.0.2:8001", "backend", "101", "3")
    assert table(section, "Log minus wire").rows == (("upstream_connect_time", "101", "0.10", "1.20", "10.4", "2"),)


def test_without_repeated_syns_there_is_no_table_of_them() -> None:
    titles = [table.title for table in wire_section(result_of(requests())).tables]
    assert not any(title.startswith("Repeated SYNs") for title in titles)


@pytest.mark.parametrize("columns", [80, 120])
def test_every_column_has_room_on_a_terminal(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    produced = requests()
    produced.request(dropped=3)
    show(wire_section(result_of(produced)))
    printed = capsys.readouterr().out
    for text in ("ACK → app starts", "backend accept queue  known", "10.0.0.2:8001", "SYN again", "closed in order"):
        assert text in printed


# --- charts


def test_the_distribution_is_exact() -> None:
    result = result_of(requests())
    waits = wait_table(result, "backend").filter(pl.col("queue") == "accept queue")
    assert waits["ms"].to_list() == pytest.approx([float(wait) for wait in range(1, 101)])
    assert waits["share"].to_list() == pytest.approx([wait / 100 for wait in range(1, 101)])
    # The wait is known, so its bounds are hidden; and no SYN was dropped.
    assert set(wait_table(result, "backend")["queue"]) == {"SYN queue", "accept queue"}
    assert band_table(result, "backend").is_empty()


def test_zero_waits_are_at_the_left_edge() -> None:
    produced = requests()
    produced.request(dropped=1)
    dropped = wait_table(result_of(produced), "backend").filter(pl.col("queue") == "SYN dropped")
    assert dropped.select("ms", "share").rows() == [(SHORTEST, pytest.approx(100 / 101, abs=1e-6)), (1_000.0, 1.0)]


def test_many_requests_make_few_points_including_the_last() -> None:
    many = pl.concat([result_of(requests()).timeline] * 200).with_row_index("n")
    many = many.with_columns(accept_wait=pl.col("n") / 1000.0)
    points = wait_table(result_of(requests(), timeline=many), "backend").filter(pl.col("queue") == "accept queue")
    assert len(points) <= 150
    assert points.select("ms", "share").row(-1) == (19_999.0, 1.0)
    assert points["share"].is_sorted()
    assert points.filter(pl.col("share") > 0.999).height > 5


def test_area_between_the_bounds_is_shaded() -> None:
    result = result_of(requests(reports_start=False))
    band = band_table(result, "backend")
    assert band["until"][-1] == 1.0
    assert band["lower"].max() == SHORTEST
    assert band["upper"].to_list() == pytest.approx([1.06 + 99 * share for share in band["share"] + 0.0125], rel=1e-3)
    assert "accept queue, at most" in set(wait_table(result, "backend")["queue"])


def test_steps_are_where_the_syns_were() -> None:
    produced = requests()
    for count in (1, 1, 3):
        produced.request(dropped=count)
    produced.attempt(syns=4, end="unanswered")
    result = result_of(produced)
    assert step_table(result).rows() == [
        ("+1 s", "answered", 2), ("+3 s", "answered", 1), ("+3 s", "never answered", 1),
    ]  # fmt: skip
    assert "<svg" in str(Drawings().of(Picture("s", "t", "c", lambda: steps_chart(result))).svg)


def test_differences_are_log_minus_wire() -> None:
    differences = pl.DataFrame({"request_time": [k / 1e5 for k in range(101)], "queueing_delay": [None] * 101})
    result = result_of(requests(), differences=differences)
    assert agreement_table(result).rows() == [("request time", 101, 0.01, 0.25, 0.5, 0.75, 0.99)]
    assert "queueing" not in str(agreement_chart(result).to_dict())


def test_every_picture_is_drawn() -> None:
    for reports_start in (True, False):
        produced = requests(reports_start)
        produced.request(dropped=2, reports_start=reports_start)
        differences = pl.DataFrame({"request_time": [0.0, 1e-4, 2.0]})
        proxy = produced.frames()[0].with_columns(
            proxy_syn_dropped=0.0, proxy_syn_queue=5e-5, proxy_accept_wait_upper=pl.int_range(pl.len()) / 1e3
        )
        result = result_of(produced, differences=differences, timeline=proxy)
        keys = [picture.key for picture in wire_section(result).pictures]
        assert keys == ["wire-packets-1", "wire-packets-2", "wire-waits", "wire-steps", "wire-agreement"]
        assert len(waits_chart(result).to_dict()["vconcat"]) == 2
        for svg in drawn(result):
            assert "<svg" in svg
            assert "NaN" not in svg


# --- hostile text


def test_hostile_text_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    produced = requests()
    for row in produced.timeline:
        row["path"] = row["client"] = row["backend"] = HOSTILE
    section = wire_section(
        result_of(
            produced,
            counts=Counts(packets=9, undecoded={HOSTILE: 1}, damaged={HOSTILE: HOSTILE}),
            joined=Joined(log=9, by={}, unjoined={HOSTILE: 9}),
            unparsed={HOSTILE: 1},
            findings=(HOSTILE,),
        )
    )
    page = report_page(None, title="t", lead=section).text()
    assert "<script>alert" not in page
    assert "\x1b" not in page
    assert len(re.findall(r'class="still" aria-hidden="true"><svg', page)) == len(section.pictures) == 3
    show(section)
    assert "\x1b" not in capsys.readouterr().out


def test_a_page_without_a_log_has_the_other_sections() -> None:
    other = Section("kernel", "The kernel", "The queue was full.", failures=("No sample.",))
    page = report_page(None, title="t", lead=wire_section(result_of(requests())), sections=[other]).text()
    assert '<h2 id="kernel">The kernel</h2>' in page
    assert page.index("200 connections") < page.index("No sample.") < page.index("The queue was full.")


def test_pictures_have_unique_keys() -> None:
    pictures: tuple[Picture, ...] = wire_section(result_of(requests())).pictures
    assert len({picture.key for picture in pictures}) == len(pictures)
