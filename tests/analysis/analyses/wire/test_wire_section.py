"""What packets show, said in words, tables and charts: each holds the truth of made-up frames."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from sojourn.analyses.wire.charts import (
    SHORTEST,
    agreement_chart,
    agreement_table,
    band_table,
    step_table,
    steps_chart,
    wait_table,
    waits_chart,
)
from sojourn.analyses.wire.notes import UNPARSED
from sojourn.analyses.wire.result import Agreed, Joined, WireResult
from sojourn.analyses.wire.section import wire_section
from sojourn.analyses.wire.tallies import servers
from sojourn.model.checks import Check
from sojourn.present.pictures import drawn as drawing
from sojourn.present.section import Picture, Section, Table
from sojourn.present.terminal import show
from sojourn.readers.capture.batch import Counts
from sojourn.report.html import report_page
from timeline_builder import Made, result_of

HOSTILE = "\x1b[31m<script>alert(1)</script>"


def requests(known: bool = True, **how: Any) -> Made:
    produced = Made()
    for wait in range(100):
        produced.request(wait=wait + 1, known=known, **how)
    return produced


def table(section: Section, start: str) -> Table:
    return next(table for table in section.tables if table.title.startswith(start))


def drawn(result: WireResult) -> Iterator[str]:
    for picture in wire_section(result).pictures:
        yield str(drawing(picture).svg)


# --- in words


def test_a_known_wait_is_said_with_its_figures() -> None:
    sentence = wire_section(result_of(requests())).sentence
    assert sentence.startswith("200 connections asked for, none of them by a SYN that had to be sent again;")
    assert "waited 50.5 ms (p50), 99.0 ms (p99)" in sentence


def test_bounds_are_said_as_bounds_with_what_narrows_them() -> None:
    section = wire_section(result_of(requests(known=False)))
    assert "no packet says: between 0 and 99.1 ms at p99" in section.sentence
    (note,) = [note for note in section.notes if "accept() leaves no packet" in note]
    assert "--log" in note


def test_repeated_refused_and_unanswered_are_counted() -> None:
    produced = requests(client_leg=False)
    produced.request(dropped=2, client_leg=False)
    produced.attempt(syns=1, end="refused")
    produced.attempt(syns=4, end="unanswered")
    section = wire_section(result_of(produced))
    assert section.sentence.startswith(
        "103 connections asked for, 2 of them (1.9 %) by a SYN that had to be sent again, 2 refused or never answered;"
    )
    ends = dict(row[:2] for row in table(section, "How connections ended").rows)
    assert ends == {
        "closed in order": "101", "refused: a reset in answer to the SYN": "1", "no answer to any SYN": "1",
    }  # fmt: skip


def test_only_syns() -> None:
    produced = Made()
    produced.attempt(syns=4, end="unanswered")
    result = result_of(produced)
    section = wire_section(result)
    assert section.sentence == (
        "1 connection asked for, 1 of them (100 %) by a SYN that had to be sent again, 1 refused or never answered; "
        "nothing tells of the backends' accept queue, for no request opened a connection to a backend."
    )
    assert [picture.key for picture in section.pictures] == ["wire-steps"]
    assert all("<svg" in picture for picture in drawn(result))


def test_nothing_at_all() -> None:
    for counts, text in (
        (Counts(), "There is no TCP connection in an empty capture"),
        (Counts(packets=7, other={"udp": 7}), "There is no TCP connection in the 7 packets: udp 7."),
    ):
        section = wire_section(result_of(Made(), counts=counts))
        assert text in section.sentence
        assert (section.pictures, section.tables) == ((), ())


def test_connections_older_than_the_capture() -> None:
    section = wire_section(result_of(requests(kept=True)))
    assert section.sentence.startswith("200 connections, every one of them older than the capture; nothing tells")


# --- what is doubtful


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        (Counts(packets=99, undecoded={"cut": 3, "ipv6_header": 9}), "12 of 99 packets could not be decoded: ipv6"),
        (Counts(packets=75, dropped=25), "The capturing side lost 25 packets (25 %)"),
        (Counts(packets=1, damaged={"a.pcap": "cut off"}), "a.pcap: cut off; what comes after"),
    ],
)  # fmt: skip
def test_what_the_reader_could_not_do_is_said_first(counts: Counts, text: str) -> None:
    (failure,) = wire_section(result_of(requests(), counts=counts)).failures
    assert failure.startswith(text)


def test_one_of_anything_is_singular() -> None:
    counts = Counts(packets=1, segments=1, cut=1, dropped=1, undecoded={"link header cut": 1}, tunnels={"gre": 1})
    produced = Made()
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
    assert re.findall(r"\b1 \w*[^s\W]s\b(?! \()", text.replace("1 was", "").replace("1 has", "")) == []
    assert re.findall(r"\b1 \w+ (?:are|were|have|speak|belong)\b", text) == []


def test_a_poor_join_is_a_failure_and_a_failed_check_says_it_once() -> None:
    joined = Joined(log=200, by={"request_id": 80, "tuple": 20}, unjoined={"not_in_capture": 60, "ambiguous": 40})
    (failure,) = wire_section(result_of(requests(), joined=joined)).failures
    assert failure == (
        "100 of 200 records of the log (50 %) were found on the wire: not in capture 60, ambiguous 40"
    )  # fmt: skip
    check = Check("wire", 0.5, 0.9, "fail", "half of the log is not on the wire")
    assert wire_section(result_of(requests(), joined=joined, checks=(check,))).failures == (check.sentence,)
    assert wire_section(result_of(requests(), joined=joined, checks=(check,)), audited=True).failures == ()
    good = Joined(log=100, by={"request_id": 99}, unjoined={"ambiguous": 1})
    passed = Check("wire", 0.99, 0.9, "pass", "the log and the wire agree")
    section = wire_section(result_of(requests(), joined=good, checks=(passed,)))
    assert section.failures == ()
    assert passed.sentence in section.notes


def test_findings_come_first_among_the_notes_and_nothing_twice() -> None:
    result = result_of(requests(known=False), findings=("Grave.", "Less so."), notes=("Made so.", "Grave."))
    notes = wire_section(result).notes
    assert notes[:2] == ("Grave.", "Less so.")
    assert len(notes) == len(set(notes))
    assert notes[-1] == "Made so."


def test_what_could_not_be_read_is_a_failure_and_no_note_besides() -> None:
    counts = Counts(packets=99, undecoded={"cut": 3}, dropped=4, damaged={"a.pcap": "cut off"})
    section = wire_section(result_of(requests(), counts=counts))
    assert len(section.failures) == 3
    assert not [note for note in section.notes for output in ("decoded", "lost", "a.pcap") if output in note]


def test_what_to_know_of_tls_copies_gaps_windows_and_clocks() -> None:
    result = result_of(requests(), negative={"accept_wait": 3}, unparsed={"tls": 10, "http2": 4})
    changed = result.connections.with_columns(
        copies=pl.lit(2, pl.Int32), gaps=pl.lit(3, pl.Int32), server_zero_windows=pl.lit(1, pl.Int32),
        protocol=pl.when(pl.col("connection") < 10).then(pl.lit("tls")).otherwise(pl.lit("http")),
    )  # fmt: skip
    notes = " ".join(wire_section(result_of(requests(), connections=changed)).notes)
    output = ("10 connections speak TLS", "400 packets are duplicates", "600 gaps", "window of 0")
    for text in output:
        assert text in notes
    notes = " ".join(wire_section(result).notes)
    assert "Not read as requests: 4 connections speak HTTP/2." in notes
    assert "accept wait 3" in notes
    for text in output:
        assert text not in notes


def test_of_loopback_and_short_packets_it_says_what_that_means() -> None:
    produced = requests()
    local = result_of(produced).connections.with_columns(server=pl.lit("127.0.0.1"))
    notes = " ".join(wire_section(result_of(produced, connections=local)).notes)
    assert "loopback" in notes
    cut = Counts(packets=99, cut=12)
    notes = " ".join(wire_section(result_of(produced, counts=cut, unparsed={"head_cut": 2})).notes)
    assert "12 packets were cut short" in notes
    assert "loopback" not in notes
    # Heads are whole all the same: bodies alone were cut, which takes nothing from the figures.
    assert "cut short" not in " ".join(wire_section(result_of(produced, counts=cut)).notes)


# --- in tables


def test_the_queues_with_what_is_known_of_each() -> None:
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
    assert [row[0] for row in table(section, "SYNs that had to be").rows] == ["+3 s"]
    servers = table(section, "Who was connected to")
    assert servers.headings == ("server", "is", "connections", "SYN again", "p99")
    assert servers.rows[0][:4] == ("10.0.0.2:8001", "backend", "101", "3")
    assert table(section, "The log less").rows == (("upstream_connect_time", "101", "0.10", "1.20", "10.4", "2"),)


def test_without_repeats_there_is_no_table_of_them() -> None:
    titles = [table.title for table in wire_section(result_of(requests())).tables]
    assert not any(title.startswith("SYNs that") for title in titles)


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


# --- in charts


def test_the_distribution_is_exact() -> None:
    result = result_of(requests())
    waits = wait_table(result, "backend").filter(pl.col("queue") == "accept queue")
    assert waits["ms"].to_list() == pytest.approx([float(wait) for wait in range(1, 101)])
    assert waits["share"].to_list() == pytest.approx([wait / 100 for wait in range(1, 101)])
    # The wait is known: bounds of it would only be in the way; and no SYN was dropped.
    assert set(wait_table(result, "backend")["queue"]) == {"SYN queue", "accept queue"}
    assert band_table(result, "backend").is_empty()


def test_what_is_zero_stands_at_the_left_edge() -> None:
    produced = requests()
    produced.request(dropped=1)
    dropped = wait_table(result_of(produced), "backend").filter(pl.col("queue") == "SYN dropped")
    assert dropped.select("ms", "share").rows() == [(SHORTEST, pytest.approx(100 / 101, abs=1e-6)), (1_000.0, 1.0)]


def test_many_requests_make_few_points_with_the_last_among_them() -> None:
    many = pl.concat([result_of(requests()).timeline] * 200).with_row_index("n")
    many = many.with_columns(accept_wait=pl.col("n") / 1000.0)
    points = wait_table(result_of(requests(), timeline=many), "backend").filter(pl.col("queue") == "accept queue")
    assert len(points) <= 150
    assert points.select("ms", "share").row(-1) == (19_999.0, 1.0)
    assert points["share"].is_sorted()
    assert points.filter(pl.col("share") > 0.999).height > 5


def test_between_the_bounds_it_is_shaded() -> None:
    result = result_of(requests(known=False))
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
    assert "<svg" in str(drawing(Picture("s", "t", "c", lambda: steps_chart(result))).svg)


def test_differences_are_those_of_the_log_less_the_wire() -> None:
    differences = pl.DataFrame({"request_time": [k / 1e5 for k in range(101)], "queueing_delay": [None] * 101})
    result = result_of(requests(), differences=differences)
    assert agreement_table(result).rows() == [("request time", 101, 0.01, 0.25, 0.5, 0.75, 0.99)]
    assert "queueing" not in str(agreement_chart(result).to_dict())


def test_every_picture_is_drawn() -> None:
    for known in (True, False):
        produced = requests(known)
        produced.request(dropped=2, known=known)
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


def test_hostile_text_does_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # What draws the charts again where scripts run: seconds to make, and nothing of it is of the section.
    monkeypatch.setattr("sojourn.present.page.vl_convert.javascript_bundle", lambda **_: "")
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


def test_a_page_without_a_log_has_the_sections_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.present.page.vl_convert.javascript_bundle", lambda **_: "")
    beside = Section("kernel", "The kernel", "Full it was.", failures=("No sample.",))
    page = report_page(None, title="t", lead=wire_section(result_of(requests())), sections=[beside]).text()
    assert '<h2 id="kernel">The kernel</h2>' in page
    assert page.index("asked for") < page.index("No sample.") < page.index("Full it was.")


def test_pictures_have_keys_of_their_own() -> None:
    pictures: tuple[Picture, ...] = wire_section(result_of(requests())).pictures
    assert len({picture.key for picture in pictures}) == len(pictures)
