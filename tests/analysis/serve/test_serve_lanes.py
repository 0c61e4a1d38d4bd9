"""Lanes of workers and waiting requests, and single requests, compared with depth and blame."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from page_client import EXAMPLES, PageClient, session_of
from sojourn.analyses.pcap.log_join import READ
from sojourn.analyses.pcap.run import pcap
from sojourn.model.errors import SojournError
from sojourn.serve import lanes as serve_lanes
from sojourn.serve.lanes import lanes_of
from sojourn.serve.one_request import log_line, one_request
from sojourn.serve.packets import packets_of
from sojourn.serve.queue import QueueOverTime
from sojourn.serve.session import Session
from sojourn.timeline.charge import accounts
from sojourn.timeline.slices import CATEGORIES
from starlette.datastructures import QueryParams


def queue_of(session: Session) -> QueueOverTime:
    return session.queue_of(session.view(QueryParams()))


def test_slices_of_a_lane_follow_each_other(page: PageClient) -> None:
    lanes = page.get("lanes")
    table = pl.DataFrame(lanes["slices"]).sort("lane", "begin")
    gaps = table.select((pl.col("begin") - pl.col("end").shift()).over("lane").alias("gap"))["gap"].drop_nulls()
    assert gaps.min() >= 0
    assert set(table["lane"]) == set(range(len(lanes["lanes"])))
    assert lanes["left_out"] == 0


def test_slices_hold_workers_for_as_long_as_depth_counts(page: PageClient, shop: Session) -> None:
    table = pl.DataFrame(page.get("lanes")["slices"])
    waiting = table["category"].is_in([CATEGORIES.index(name) for name in ("waiting", "abandoned")])
    services = queue_of(shop).services
    held = np.nansum(services.end - services.begin)
    assert (table.filter(~waiting)["end"] - table.filter(~waiting)["begin"]).sum() / 1e6 == pytest.approx(
        held, rel=1e-3
    )
    waits = queue_of(shop).visits.wait
    in_lanes = table.filter(pl.col("category") == CATEGORIES.index("waiting"))
    assert (in_lanes["end"] - in_lanes["begin"]).sum() / 1e6 == pytest.approx(waits[waits > 0].sum(), rel=1e-3)


def test_averages_are_those_of_the_slices(page: PageClient, shop: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    single = page.get("lanes")
    monkeypatch.setattr(serve_lanes, "MOST_REQUESTS", 100)
    averages = page.get("lanes")
    assert "slices" not in averages
    names = [(lane["backend"], lane["name"]) for lane in single["lanes"] if not lane["waiting"]]
    assert [(lane["backend"], lane["name"]) for lane in averages["lanes"]] == names
    table = pl.DataFrame(single["slices"])
    for lane, parts in averages["averages"]["parts"].items():
        own = table.filter(pl.col("lane") == int(lane))
        inside = (
            own.select(pl.min_horizontal("end", pl.lit(single["to"] - single["from"])) - pl.col("begin")).sum().item()
        )
        assert sum(parts) * averages["averages"]["width"] == pytest.approx(inside, rel=2e-2)
        assert max(parts) <= 1 + 1e-9


def test_queue_of_a_window_of_many_requests_is_that_of_all(
    page: PageClient, shop: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the limit the queue of a window is computed alone, from the requests a minute before it on."""
    begin = shop.begin + 100 * 1_000_000
    window = {"from_": begin, "to": begin + 30 * 1_000_000, "columns": 30}
    whole = page.get("queue", **window)
    monkeypatch.setattr("sojourn.serve.session.WHOLE", 1_000)
    monkeypatch.setattr("sojourn.serve.session.PART", 1_000)
    assert "zoom in" in page.refusal("queue")
    assert "zoom in" in page.refusal("lanes")
    alone = page.get("queue", **window)
    for name in ("waiting", "in_service", "most_waiting", "workers"):
        assert alone[name] == pytest.approx(whole[name], abs=1e-6), name
    lanes = page.get("lanes", **window)
    number = lanes["requests"]["number"][5]
    request = page.get("request", number=number, **window)
    assert request["values"]["route"] == lanes["requests"]["route"][5]


def test_many_requests_are_refused_with_their_number(page: PageClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_lanes, "MOST_AVERAGED", 100)
    assert "zoom in" in page.refusal("lanes")


def test_fewer_workers_than_all_leave_backends_out(shop: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_lanes, "MOST_WORKERS", 2)
    queue = queue_of(shop)
    view = shop.view(QueryParams())
    lanes = lanes_of(queue, view)
    assert lanes["left_out"] == 1
    waited = np.bincount(queue.visits.backend, queue.visits.wait)
    assert lanes["backends"] == [queue.visits.backends[int(waited.argmax())]]


def test_wait_of_a_request_is_divided_among_holders_and_accounts(page: PageClient, shop: Session) -> None:
    waits = queue_of(shop).visits.wait
    for number in np.argsort(-waits)[:200:20].tolist():
        request = page.get("request", number=number)
        charged = sum(holder["seconds"] for holder in request["holders"])
        others = sum(account["seconds"] for account in request["accounts"])
        if not request["more_holders"]:
            assert charged + others == pytest.approx(request["wait"], rel=1e-3, abs=1e-5)
        for holder in request["holders"]:
            assert holder["begin"] < request["left"]
            assert holder["end"] > request["arrival"]


def test_holders_of_all_requests_sum_to_what_blame_charges(shop: Session) -> None:
    """Each request alone is charged to the same others as all requests together."""
    visits = queue_of(shop).visits
    chosen = np.flatnonzero(visits.wait > 0.5)[:40]
    together = accounts(visits, queue_of(shop).services, np.isin(np.arange(len(visits)), chosen)).caused
    single = np.zeros(len(visits))
    for number in chosen.tolist():
        for holder in one_request(shop, shop.view(QueryParams()), number)["holders"]:
            single[holder["number"]] += holder["seconds"]
    largest = np.argsort(-together)[:5]
    assert single[largest] == pytest.approx(together[largest], rel=0.05)


def test_request_has_its_own_row(page: PageClient, shop: Session) -> None:
    visits = queue_of(shop).visits
    ids = visits.rows["request_id"]
    for number in (0, 500, 1500, len(visits) - 1):
        request = page.get("request", number=number)
        assert request["values"]["request_id"] == ids[number]
        assert sum(request["components"].values()) == pytest.approx(request["response_time"], abs=1e-6)
        line = json.loads(request["line"])
        assert line["request_id"] == ids[number]
        assert line["remote_addr"].endswith(".0")


def test_request_is_the_same_after_its_number_changed(page: PageClient) -> None:
    requests = page.get("lanes")["requests"]
    for place in range(0, len(requests["number"]), 500):
        number, arrival = requests["number"][place], requests["arrival"][place]
        request = page.get("request", number=number, arrival=arrival)
        assert request["number"] == number
        assert request["arrival"] == arrival
        if requests["arrival"].count(arrival) == 1:
            assert page.get("request", number=number + 7, arrival=arrival) == request
    assert page.error("request", number=0, arrival=1_000).startswith("arrival: ")


@pytest.mark.parametrize("number", ["-1", "x", "", "99999999", "1e3", "9" * 40])
def test_refuses_a_number_without_a_request(page: PageClient, number: str) -> None:
    assert page.error("request", number=number).startswith("number: ")


def test_line_of_a_rotated_or_missing_log_is_unknown(tmp_path: Path) -> None:
    assert log_line([f"{tmp_path}/gone.jsonl"], "abc") is None
    assert log_line([], "abc") is None
    assert log_line(["-"], "abc") is None
    assert log_line([f"{tmp_path}/gone.jsonl"], None) is None


def test_line_across_chunks_is_whole_and_redacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.serve.one_request.CHUNK", 64)
    lines = [
        json.dumps({"request_id": f"id-{number:04}", "uri": f"/a?secret={number}", "remote_addr": "192.0.2.77"})
        for number in range(200)
    ]
    log = f"{tmp_path}/log.jsonl"
    with open(log, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    for number in range(0, 200, 7):
        line = log_line([log], f"id-{number:04}")
        assert line is not None
        assert json.loads(line) == {"request_id": f"id-{number:04}", "uri": "/a?", "remote_addr": "192.0.2.0"}


def test_log_without_queue_times_says_why_there_are_no_lanes(tmp_path: Path) -> None:
    """A log of an app server alone: the time before the app is not in it."""
    log = f"{tmp_path}/plain.jsonl"
    fields = {"service": "shop", "route": "/r", "status": "404", "request_time": "0.010", "method": "GET", "uri": "/"}
    with open(log, "w", encoding="utf-8") as file:
        for number in range(20):
            file.write(
                json.dumps({"time": f"{1_767_225_600 + number}.000", "request_id": f"{number:032x}", **fields}) + "\n"
            )
    session = session_of(log)
    with pytest.raises(SojournError, match="queueing delay"):
        queue_of(session)


def test_packets_of_a_request_are_those_of_the_capture() -> None:
    log, capture = str(EXAMPLES / "wire.jsonl.gz"), str(EXAMPLES / "wire.pcap.gz")
    session = session_of(log, columns=(*READ, "request_id"))
    assert session.wire is None
    assert one_request(session, session.view(QueryParams()), 0)["packets"] is None
    session.wire = pcap([capture], log=session.requests)
    ids = session.wire.timeline["request_id"].drop_nulls()
    assert len(ids) > 10
    packets = packets_of(session.wire, ids[3])
    assert packets is not None
    assert packets[0]["at"] == 0
    assert [packet["at"] for packet in packets] == sorted(packet["at"] for packet in packets)
    places = {packet["place"] for packet in packets}
    assert {"client and proxy", "proxy and backend"} <= places
    row = session.wire.timeline.filter(pl.col("request_id") == ids[3]).row(0, named=True)
    assert any(str(row["path"])[:10] in packet["label"] for packet in packets)
    assert packets_of(session.wire, "of no request") is None
