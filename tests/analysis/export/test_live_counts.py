"""Counts of requests: the answers of each source, and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sojourn.export.live.counts import Count, count_of
from sojourn.export.live.poller import source_of
from sojourn.model.errors import SojournError

STUB = """Active connections: 291
server accepts handled requests
 16630948 16630948 31070465
Reading: 6 Writing: 179 Waiting: 106
"""
ENVOY = """cluster.shop.upstream_rq_active: 3
cluster.shop.upstream_rq_pending_active: 2
cluster.shop.upstream_rq_pending_total: 70
cluster.shop.upstream_rq_time: P0(nan,1.0) P50(nan,2.0)
cluster.shop.upstream_rq_total: 500
cluster.blog.upstream_rq_active: 1
cluster.blog.upstream_rq_total: 40
"""
ENVOY_SERIES = """# TYPE envoy_cluster_upstream_rq_active gauge
envoy_cluster_upstream_rq_active{envoy_cluster_name="shop"} 3
# TYPE envoy_cluster_upstream_rq_pending_active gauge
envoy_cluster_upstream_rq_pending_active{envoy_cluster_name="shop"} 2
# TYPE envoy_cluster_upstream_rq_total counter
envoy_cluster_upstream_rq_total{envoy_cluster_name="shop"} 500
"""
GAUGE = """# HELP sojourn_requests_in_progress Requests
# TYPE sojourn_requests_in_progress gauge
sojourn_requests_in_progress{pid="7"} 3.0
sojourn_requests_in_progress{pid="8"} 2.0
# TYPE http_server_active_requests gauge
http_server_active_requests{http_request_method="GET"} 5
"""
FPM = """{"pool":"www","listen queue":4,"max listen queue":9,"listen queue len":511,"idle processes":1,
"active processes":3,"total processes":4,"max children reached":0,"accepted conn":90}"""


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (STUB, Count(31_070_465, 178, has_query=True)),
        ('{"total": 4210, "current": 7}', Count(4210, 6, has_query=True)),
        ('{"processing": 5, "requests": 99, "responses": {"2xx": 90}, "discarded": 0}', Count(99, 5)),
        ('{"ssl": {}, "requests": {"total": 99, "processing": 5, "discarded": 1}}', Count(99, 5)),
        (ENVOY, Count(542, 6)),
        (ENVOY_SERIES, Count(502, 5)),
        (GAUGE, Count(None, 5, has_waiting=False)),
        ('{"sojourn": 1, "kind": "node", "requests_in_progress": 3}', Count(None, 3, has_waiting=False)),
        (FPM, Count(None, 7)),
        (FPM.replace("511", "0"), Count(None, 3, has_waiting=False)),
    ],
    ids=["stub_status", "plus", "zone of plus", "zone of angie", "envoy", "envoy's series", "gauge", "node", "fpm",
         "fpm on a unix socket"],
)  # fmt: skip
def test_counts_of_each_source(text: str, count: Count) -> None:
    assert count_of(text) == count


@pytest.mark.parametrize(
    "text",
    ["", "<html>404</html>", "{}", "[1]", '{"requests": 7}', '{"requests": {"total": 7}}', '{"current": true}',
     '{"total": -1, "current": 2}', "# TYPE a gauge\na 1\n", "Active connections: 1", "a{", '{"sojourn": 1}',
     "a 1e999"],
)  # fmt: skip
def test_other_answers_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="the answer is not"):
        count_of(text)


@given(st.text(max_size=200) | st.text('{}[]":,0123456789.eE+- \n#requestscnl', max_size=80))
def test_any_answer_is_read_or_refused(text: str) -> None:
    try:
        count = count_of(text)
    except ValueError:
        return
    assert count.in_progress >= 0


def test_sources_have_a_service_or_count_everything() -> None:
    assert source_of("http://127.0.0.1:8088/status?a=b").service is None
    shop = source_of("shop=http://127.0.0.1:8088/status")
    assert (shop.service, shop.address.host, shop.address.target) == ("shop", "127.0.0.1", "/status")
    assert source_of("http://unix:/run/nginx.sock:/status").address.socket == "/run/nginx.sock"


@pytest.mark.parametrize("text", ["", "shop=", "127.0.0.1:8088", "ftp://a/", "shop", "http://u:secret@[/", "a b"])
def test_other_texts_are_no_source(text: str) -> None:
    with pytest.raises(SojournError, match="is not \\[SERVICE=\\]URL") as caught:
        source_of(text)
    assert "secret" not in str(caught.value)
