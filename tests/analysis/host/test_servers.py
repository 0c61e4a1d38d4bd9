"""Addresses of application servers, their answers, and a client that hostile answers cannot harm."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sojourn.analyses.kernel.analysis import kernel
from sojourn.analyses.kernel.charts_accept_queue import accept_queue
from sojourn.analyses.kernel.result import KernelResult
from sojourn.analyses.kernel.section import kernel_section
from sojourn.host.kernel_queues import KernelProbe
from sojourn.host.sample import Raindrops, Sample, WorkerQueue
from sojourn.host.samples import read_samples, samples_of
from sojourn.host.servers import connection as client
from sojourn.host.servers.address import concealed
from sojourn.host.servers.answers import (
    node_queue,
    php_fpm_queue,
    puma_queue,
    raindrops_of,
    tomcat_queue,
    uwsgi_queue,
)
from sojourn.host.servers.asker import Asker
from sojourn.host.servers.kinds import KINDS, NO_ANSWER, Server, server_of
from sojourn.model.errors import SojournError

START = 1_767_225_600.0
FPM = {
    "pool": "www", "process manager": "static", "start time": 1, "accepted conn": 9, "listen queue": 2,
    "max listen queue": 3, "listen queue len": 16, "idle processes": 1, "active processes": 4, "total processes": 5,
    "max active processes": 5, "max children reached": 1, "slow requests": 0,
}  # fmt: skip
UWSGI = {
    "version": "2.0", "listen_queue": 3, "listen_queue_errors": 2, "signal_queue": 0,
    "sockets": [
        {"name": "127.0.0.1:1", "queue": 3, "max_queue": 100}, {"name": "/run/app.sock", "queue": 0, "max_queue": 0},
    ],
    "workers": [
        {"id": 1, "status": "busy", "requests": 10, "cores": [{"in_request": 1}, {"in_request": 0}]},
        {"id": 2, "status": "cheap", "requests": 4, "cores": [{"in_request": 0}, {"in_request": 0}]},
        {"id": 3, "status": "busy", "requests": 1},
    ],
}  # fmt: skip
PUMA = {"started_at": "2026-01-01T00:00:00Z", "backlog": 2, "running": 3, "pool_capacity": 1, "max_threads": 5,
        "requests_count": 7}  # fmt: skip
CLUSTER = {
    "workers": 3, "booted_workers": 2, "old_workers": 0,
    "worker_status": [
        {"pid": 1, "index": 0, "booted": True, "last_status": PUMA},
        {"pid": 2, "index": 1, "booted": True, "last_status": {**PUMA, "backlog": 0, "pool_capacity": 5}},
        {"pid": 3, "index": 2, "booted": False, "last_status": {}},
    ],
}  # fmt: skip
NODE = {
    "sojourn": 1, "kind": "node", "pid": 7, "worker": "7", "requests_in_progress": 3, "requests": 12,
    "event_loop_delay": {"p50": 0.01, "p99": 0.05, "max": 0.06, "mean": 0.011}, "event_loop_utilisation": 0.97,
    "uptime": 5.5,
}  # fmt: skip
TOMCAT = """\
OK - Number of results: 3

Name: Catalina:type=ThreadPool,name="http-nio-8080"
modelerType: org.apache.tomcat.util.modeler.BaseModelMBean
currentThreadsBusy: 2
maxThreads: 200
connectionCount: 9

Name: Catalina:type=ThreadPool,name="http-nio-8080",subType=SocketProperties
maxThreads: 77

Name: Catalina:type=ThreadPool,name="http-nio-8443"
currentThreadsBusy: 4
maxThreads: -1

OK - Number of results: 1

Name: Catalina:type=Executor,name=tomcatThreadPool
activeCount: 4
queueSize: 6
maxThreads: 4
maxQueueSize: 2147483647
name: tomcatThreadPool
"""
RAINDROPS = "calling: 3\nwriting: 1\n0.0.0.0:8080 active: 4\n0.0.0.0:8080 queued: 9\n"
ANSWERS = {
    "php-fpm": (php_fpm_queue, json.dumps(FPM)),
    "uwsgi": (uwsgi_queue, json.dumps(UWSGI)),
    "puma": (puma_queue, json.dumps(PUMA)),
    "puma cluster": (puma_queue, json.dumps(CLUSTER)),
    "node": (node_queue, json.dumps(NODE)),
    "tomcat": (tomcat_queue, TOMCAT),
    "unicorn": (raindrops_of, RAINDROPS),
}
PARSERS: dict[str, Callable[[str], WorkerQueue | Raindrops]] = {name: parse for name, (parse, _) in ANSWERS.items()}


@pytest.mark.parametrize(
    ("name", "queue"),
    [
        ("php-fpm", WorkerQueue("php-fpm", waiting=2, limit=16, busy=4, workers=5, limit_reached=1, requests=9)),
        ("uwsgi", WorkerQueue("uwsgi", waiting=3, limit=100, busy=2, workers=3, limit_reached=2, requests=15)),
        ("puma", WorkerQueue("puma", waiting=2, busy=4, workers=5, requests=7)),
        ("puma cluster", WorkerQueue("puma", waiting=2, busy=4, workers=10, requests=14)),
        (
            "node",
            WorkerQueue(
                "node", busy=3, requests=12, instance="7", event_loop_delay_mean=0.011, event_loop_delay_p50=0.01,
                event_loop_delay_p99=0.05, event_loop_delay_max=0.06, event_loop_utilisation=0.97,
            ),
        ),
        ("tomcat", WorkerQueue("tomcat", waiting=6, busy=6, workers=204)),
        ("unicorn", Raindrops(3, 1, {"0.0.0.0:8080": (4, 9)}, 0.0)),
    ],
)  # fmt: skip
def test_parses_the_answer_of_each_kind(name: str, queue: WorkerQueue | Raindrops) -> None:
    parse, text = ANSWERS[name]
    assert parse(text) == queue


def test_unknown_figures_are_none_and_not_zero() -> None:
    at_unix_socket = php_fpm_queue(json.dumps({**FPM, "listen queue": 0, "listen queue len": 0}))
    assert (at_unix_socket.waiting, at_unix_socket.limit) == (None, None)
    without = uwsgi_queue(json.dumps({**UWSGI, "sockets": UWSGI["sockets"][1:]}))  # type: ignore[index]
    assert (without.waiting, without.limit) == (None, None)
    starting = puma_queue(json.dumps({**CLUSTER, "worker_status": [{"last_status": {}}]}))
    assert (starting.waiting, starting.busy, starting.workers, starting.requests) == (None, None, None, None)
    # A connector's own threads have a queue without a figure; virtual threads have no number.
    own = tomcat_queue('Name: Catalina:type=ThreadPool,name="a"\ncurrentThreadsBusy: -2\nmaxThreads: 9\n')
    assert (own.waiting, own.busy, own.workers) == (None, None, 9)
    assert node_queue(json.dumps({"sojourn": 1, "kind": "node", "requests_in_progress": 0})).requests is None


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("php-fpm", "<html>", "PHP-FPM's status page in JSON"),
        ("php-fpm", json.dumps({**FPM, "listen queue": -1}), r"\$\.listen queue"),
        ("php-fpm", json.dumps({**FPM, "active processes": 1 << 40}), r"\$\.active processes"),
        ("uwsgi", json.dumps({"workers": []}), "listen_queue_errors"),
        ("puma", json.dumps({"status": "ok"}), "it has no backlog"),
        ("puma", json.dumps({**PUMA, "backlog": "2"}), r"\$\.backlog"),
        ("node", json.dumps({**NODE, "kind": "deno"}), "its kind is not node"),
        ("node", json.dumps({**NODE, "event_loop_utilisation": 7}), r"\$\.event_loop_utilisation"),
        ("node", '{"sojourn": 1, "kind": "node", "requests_in_progress": 1, "uptime": NaN}', "malformed"),
        ("tomcat", "OK - Number of results: 0\n", "no thread pool"),
        ("tomcat", "Name: a:type=ThreadPool,name=b\nmaxThreads: 99999999999999999999\n", "no thread pool"),
        ("unicorn", "<html>", "raindrops"),
        ("node", "[" * 100_000, "not from"),
        ("php-fpm", "\ud800", "not from"),
    ],
)
def test_other_answers_are_refused_with_a_reason(name: str, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        PARSERS[name](text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("name", ANSWERS)
@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_parsers_return_figures_that_can_be_recorded_or_refuse(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    parse, text = ANSWERS[name]
    if text.startswith("{") and data.draw(st.booleans()):
        document = json.loads(text)
        for _ in range(data.draw(st.integers(1, 3))):
            document[data.draw(st.sampled_from(sorted(document)))] = data.draw(JSON)
        text = json.dumps(document)
    else:
        begin = data.draw(st.integers(0, len(text)))
        text = text[:begin] + data.draw(st.text(max_size=20)) + text[data.draw(st.integers(begin, len(text))) :]
    try:
        answer = parse(text)
    except ValueError:
        return
    if not answer.is_possible():  # a sum: Server.answer refuses it
        return
    if isinstance(answer, Raindrops):
        sample = Sample(time=START, raindrops={"x": answer})
    else:
        sample = Sample(time=START, servers={"x": msgspec.structs.replace(answer, seconds=0.1)})
    path = tmp_path_factory.getbasetemp() / f"{name}.jsonl"
    path.write_bytes(msgspec.json.encode(sample) + b"\n")
    samples = read_samples([path])
    assert samples.records.reasons == {}
    assert samples.servers["kind"].to_list() == [name.partition(" ")[0]]


def test_sums_that_cannot_be_are_refused(tmp_path: Path) -> None:
    worker = {"last_status": {**PUMA, "backlog": (1 << 32) - 1}}
    body = json.dumps({**CLUSTER, "worker_status": [worker] * 2}).encode()

    def serve(connection: socket.socket) -> None:
        connection.recv(10_000)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + body)

    with answering(tmp_path, serve) as path, pytest.raises(ValueError, match="impossible figures"):
        Server("puma", f"unix:{path}").answer(10.0)


# Addresses


@pytest.mark.parametrize(
    ("text", "where", "targets"),
    [
        ("php-fpm=http://h/status", ("http", "h", 80, None), ("/status?json",)),
        ("php-fpm=https://h:8443/s?full", ("https", "h", 8443, None), ("/s?full&json",)),
        ("php-fpm=h:9000", ("", "h", 9000, None), ("/status?json",)),
        ("php-fpm=[::1]:9000/s", ("", "::1", 9000, None), ("/s?json",)),
        ("php-fpm=unix:/run/a.sock:/s?json", ("", "localhost", 80, "/run/a.sock"), ("/s?json",)),
        ("uwsgi=unix:@stats", ("", "localhost", 80, "@stats"), ("/",)),
        ("puma=http://unix:/run/a.sock:/stats?token=t", ("http", "localhost", 80, "/run/a.sock"), ("/stats?token=t",)),
        ("puma=unix:/run/a.sock", ("", "localhost", 80, "/run/a.sock"), ("/stats",)),
        ("node=http://h:3000/sojourn", ("http", "h", 3000, None), ("/sojourn",)),
        (
            "tomcat=http://u:p@h:8080",
            ("http", "h", 8080, None),
            ("/manager/jmxproxy/?qry=*:type=ThreadPool,*", "/manager/jmxproxy/?qry=*:type=Executor,*"),
        ),
        ("tomcat=http://h/j?qry=x", ("http", "h", 80, None), ("/j?qry=x",)),
        ("unicorn=http://h:8080", ("http", "h", 8080, None), ("/_raindrops",)),
    ],
)
def test_addresses_of_servers(text: str, where: tuple[object, ...], targets: tuple[str, ...]) -> None:
    server = server_of(text)
    address = server.address
    assert (address.scheme, address.host, address.port, address.socket) == where
    assert server.targets == targets


@pytest.mark.parametrize(
    "text",
    [
        "php-fpm", "php-fpm=", "apache=http://h", "node=h:3000/x", "node=unix:/s:/x", "tomcat=h:8080", "unicorn=h:80",
        "uwsgi=ftp://h", "uwsgi=h:0", "uwsgi=h:70000", "uwsgi=h:x", "puma=http://h:x/", "puma=http:///stats",
        "puma=http://h/a b", "puma=http://h/a\r\nX: y", "puma=http://\u00e4/", "node=http://" + "h" * 3000,
        "php-fpm=unix:", "php-fpm=unix:/s:status", "node=http://[::1/",
    ],
)  # fmt: skip
def test_rejects_addresses_of_no_form(text: str) -> None:
    with pytest.raises(SojournError, match=r"is queried at|is not KIND=ADDRESS"):
        server_of(text)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://user:geheim@h:8080/manager", "http://user:…@h:8080/manager"),
        ("http://user:geheim%40x@h/", "http://user:…@h/"),
        ("http://h/stats?token=geheim", "http://h/stats?token=…"),
        ("http://h/stats?a=geheim&json&qry=x", "http://h/stats?a=…&json&qry=x"),
        ("http://unix:/s:/stats?token=geheim", "http://unix:/s:/stats?token=…"),
    ],
)
def test_passwords_and_tokens_are_not_shown(address: str, shown: str) -> None:
    server = Server("puma", address)
    assert server.address.redacted == shown
    assert "geheim" not in repr(server.address)


@pytest.mark.parametrize(
    "text",
    [
        "puma=http://user:geheim@h:x/", "puma=http://user:ge/heim@h/", "http://user:geheim@h/",
        "puma=http://h /?t=geheim",
    ],
)  # fmt: skip
def test_messages_hold_no_password(text: str) -> None:
    with pytest.raises(SojournError) as refused:
        server_of(text)
    assert "heim" not in str(refused.value)
    assert "heim" not in concealed(text)


def test_rejects_the_same_server_twice() -> None:
    with pytest.raises(SojournError, match="given twice"):
        KernelProbe({}, raindrops=["http://h:1/_raindrops"], servers=["unicorn=http://h:1/_raindrops"])


# The client


@contextmanager
def answering(folder: Path, serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """The path of a Unix socket of which one connection is handed to ``serve``."""
    path = str(folder / "s")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(1)
        listening.settimeout(20)

        def accept() -> None:
            try:
                connection = listening.accept()[0]
            except TimeoutError:
                return
            with connection:
                try:
                    serve(connection)
                except OSError:
                    return  # the client has closed it, as it should

        server = threading.Thread(target=accept)
        server.start()
        try:
            yield path
        finally:
            server.join()


def test_sends_one_get_request_with_the_credentials(tmp_path: Path) -> None:
    requests = []

    def serve(connection: socket.socket) -> None:
        requests.append(connection.recv(10_000))
        body = json.dumps(PUMA).encode()
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head + b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        server = threading.Thread(target=lambda: serve(listening.accept()[0]))
        server.start()
        answer = Server("puma", f"http://user:p%3Aw@127.0.0.1:{port}/stats?token=t").answer(10.0)
        server.join()
    assert isinstance(answer, WorkerQueue)
    assert answer.waiting == 2
    lines = requests[0].decode().split("\r\n")
    assert lines[0] == "GET /stats?token=t HTTP/1.1"
    assert f"Host: 127.0.0.1:{port}" in lines
    assert "Authorization: Basic dXNlcjpwOnc=" in lines
    assert lines[-2:] == ["", ""]


@pytest.mark.parametrize("trusted", [False, True])
def test_https_takes_certificates_that_the_system_trusts_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    make = "openssl req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256 -keyout key -out cert"
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*make.split(), *names], cwd=tmp_path, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert"))

    def serve(listening: socket.socket) -> None:
        plain = listening.accept()[0]
        try:
            with context.wrap_socket(plain, server_side=True) as connection:
                connection.recv(10_000)
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + json.dumps(PUMA).encode())
        except OSError:
            plain.close()  # the client has refused the certificate

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = threading.Thread(target=serve, args=(listening,))
        server.start()
        answer = Asker(Server("puma", f"https://127.0.0.1:{listening.getsockname()[1]}/stats")).sample(20.0)
        server.join()
    if trusted:
        assert isinstance(answer, WorkerQueue)
        assert answer.waiting == 2
    else:
        assert "certificate verify failed" in str(answer)


@pytest.mark.parametrize(
    ("kind", "answer", "reason"),
    [
        ("puma", b"HTTP/1.1 302 Moved\r\nLocation: http://x/\r\n\r\n", "it answered 302"),
        ("puma", b"HTTP/1.1 200 OK\r\n\r\n\x1b[31m", "the answer is not from Puma's control app"),
        ("puma", b"\xff" * 70_000, "BadStatusLine|LineTooLong|got more than"),
        ("puma", b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 1_000, "more than 100 headers|truncated"),
        ("puma", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}", "IncompleteRead|2 bytes read"),
        ("uwsgi", b"", "the answer is not from uWSGI's stats server"),
        ("php-fpm", b"", "closed the connection without an answer"),
        ("php-fpm", b"HTTP/1.1 400 Bad Request\r\n\r\n", "the answer is not FastCGI"),
        ("php-fpm", b"\x01\x06\x00\x01\xff\xff\x00\x00abc", "the answer is not FastCGI"),
        ("php-fpm", b"\x01\x03\x00\x01\x00\x08\x00\x00" + b"\x00" * 8, "the answer has no headers"),
        ("php-fpm", b"\x01\x06\x00\x01\x00\x0f\x00\x00Status: 404\r\n\r\n" + b"\x01\x03\x00\x01\x00\x00\x00\x00",
         "it answered 404"),
    ],
)  # fmt: skip
def test_hostile_answers_are_refused_with_a_reason(tmp_path: Path, kind: str, answer: bytes, reason: str) -> None:
    def serve(connection: socket.socket) -> None:
        if kind != "uwsgi":
            connection.recv(10_000)
        connection.sendall(answer)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(10_000):  # a reset would overtake the answer
            pass

    with answering(tmp_path, serve) as path, pytest.raises(NO_ANSWER, match=reason):
        Server(kind, f"http://unix:{path}:/x" if kind == "puma" else f"unix:{path}").answer(10.0)


@pytest.mark.parametrize("kind", ["uwsgi", "puma", "php-fpm"])
def test_an_endless_answer_is_cut_off(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "LARGEST", 1 << 20)
    begin = {
        "uwsgi": b"",
        "puma": b"HTTP/1.1 200 OK\r\n\r\n",
        "php-fpm": b"\x01\x06\x00\x01\xff\xff\x00\x00" + b"a" * 65_535,
    }[kind]

    def serve(connection: socket.socket) -> None:
        connection.sendall(begin)
        while True:
            connection.sendall(begin if kind == "php-fpm" else b"a" * 65_535)

    with answering(tmp_path, serve) as path, pytest.raises(ValueError, match="larger than 1 MiB"):
        Server(kind, f"unix:{path}").answer(20.0)


def test_a_slow_answer_ends_by_the_deadline_and_not_by_its_last_byte(tmp_path: Path) -> None:
    ended = threading.Event()

    def serve(connection: socket.socket) -> None:
        while not ended.wait(0.02):
            connection.sendall(b" ")

    with answering(tmp_path, serve) as path:
        with pytest.raises(TimeoutError):
            Server("uwsgi", f"unix:{path}").answer(0.3)
        ended.set()


def test_a_query_that_failed_is_repeated_in_the_next_sample(tmp_path: Path) -> None:
    asker = Asker(Server("uwsgi", f"unix:{tmp_path}/none"))
    assert asker.sample(10.0) == "no answer: [Errno 2] No such file or directory"
    (tmp_path / "none").mkdir()
    assert asker.sample(10.0) == "no answer: [Errno 111] Connection refused"


# The analysis


def explained(*answers: WorkerQueue, times: list[float] | None = None) -> KernelResult:
    seconds = times or [float(number) for number in range(len(answers))]
    return kernel(
        samples_of(
            Sample(time=START + second, servers={"h:1": answer})
            for second, answer in zip(seconds, answers, strict=True)
        )
    )


def fpm(busy: int, waiting: int | None, **more: object) -> WorkerQueue:
    return WorkerQueue("php-fpm", seconds=0.01, busy=busy, workers=4, waiting=waiting, limit=16, **more)  # type: ignore[arg-type]


def test_saturation_is_all_workers_busy_and_something_waiting() -> None:
    answers = [fpm(2, 0), fpm(4, 0), fpm(4, 3), fpm(3, 1), WorkerQueue("php-fpm", reason="no answer")]
    result = explained(*answers)
    (row,) = result.servers.to_dicts()
    assert (row["answers"], row["unanswered"], row["reason"]) == (4, 1, "no answer")
    assert (row["busy"], row["busy_mean"], row["workers"]) == (4, 3.25, 4)
    assert (row["waiting"], row["deepest"], row["waiting_mean"], row["limit"]) == (1, 3, 1.0, 16)
    assert row["deepest_at"].timestamp() == START + 2
    assert (row["all_busy"], row["all_busy_share"], row["saturated"], row["saturated_share"]) == (2, 0.5, 1, 0.25)
    assert [finding.key for finding in result.findings] == ["saturated", "unanswered"]
    assert {finding.server for finding in result.findings} == {"h:1"}


def test_busy_workers_without_a_known_queue_are_a_finding_of_their_own() -> None:
    result = explained(fpm(4, None), fpm(4, None), fpm(1, None))
    (row,) = result.servers.to_dicts()
    assert (row["waiting"], row["deepest"], row["saturated"], row["all_busy"]) == (None, None, None, 2)
    assert [finding.key for finding in result.findings] == ["workers_busy"]
    assert not explained(fpm(4, None), fpm(1, None), fpm(1, None)).findings


def test_counters_of_servers_are_increases_and_survive_a_restart() -> None:
    counted = [(10, 100), (12, 140), (0, 5), (1, 9)]
    result = explained(*(fpm(1, 0, limit_reached=reached, requests=total) for reached, total in counted))
    (row,) = result.servers.to_dicts()
    assert (row["limit_reached"], row["requests"]) == (3, 44)
    assert [finding.key for finding in result.findings] == ["limit_reached"]
    (alone,) = explained(fpm(1, 0, limit_reached=7)).servers.to_dicts()
    assert (alone["limit_reached"], alone["requests"]) == (None, None)


def test_processes_that_answer_for_themselves_are_counted_apart() -> None:
    counted = [("a", 100), ("b", 5), ("a", 103), ("b", 9)]
    result = explained(
        *(WorkerQueue("node", seconds=0.1, busy=1, instance=name, requests=total) for name, total in counted)
    )
    assert result.servers["requests"].to_list() == [7]


def test_a_full_event_loop_is_a_finding() -> None:
    loops = [(0.99, 0.2), (0.5, 0.01)]
    result = explained(
        *(
            WorkerQueue("node", seconds=0.1, busy=1, event_loop_utilisation=share, event_loop_delay_p99=delay)
            for share, delay in loops
        )
    )
    (row,) = result.servers.to_dicts()
    assert (row["event_loop_utilisation"], row["event_loop_delay_p99"], row["event_loop_full_share"]) == (
        0.99,
        0.2,
        0.5,
    )
    assert [finding.key for finding in result.findings] == ["event_loop"]
    tables = {table.headings: table for table in kernel_section(result).tables}
    assert any("event loop" in heading for headings in tables for heading in headings)


def test_raindrops_are_servers_of_kind_unicorn() -> None:
    answers = [Raindrops(3, 1, {"a": (4, 9), "b": (0, 2)}, 0.01), "no answer"]
    result = kernel(
        samples_of(Sample(time=START + number, raindrops={"u": answer}) for number, answer in enumerate(answers))
    )
    (row,) = result.servers.to_dicts()
    assert (row["server"], row["kind"], row["answers"], row["unanswered"]) == ("u", "unicorn", 1, 1)
    assert (row["busy"], row["waiting"], row["workers"]) == (3, 11, None)
    assert len(result.to_dict()["raindrops"]) == 1


def test_the_chart_has_a_panel_for_each_server_with_a_queue() -> None:
    chart = json.loads(accept_queue(explained(fpm(4, 3), fpm(4, 1), fpm(0, 0))).to_json())
    panels = [panel for panel in chart["vconcat"] if "php-fpm at h:1" in panel["title"]["text"]]
    assert len(panels) == 1
    rows = chart["datasets"][panels[0]["data"]["name"]]
    assert [row["waiting"] for row in rows] == [3, 1, 0]


def test_the_section_shows_queues_and_what_they_count() -> None:
    section = kernel_section(explained(fpm(4, 3)))
    (queues,) = [table for table in section.tables if "before the workers" in table.title]
    assert queues.rows == (("h:1", "php-fpm", "4 of 4", "4.0", "3", "3", "3.0", "16", "–"),)
    assert KINDS["php-fpm"].counts in section.notes
    assert all(len(row) == len(table.headings) for table in section.tables for row in table.rows)


def test_impossible_figures_in_a_recording_are_refused(tmp_path: Path) -> None:
    good = {"time": START, "servers": {"h:1": {"kind": "php-fpm", "seconds": 0.1, "waiting": 1}}}
    bad = [
        {"waiting": -1}, {"busy": 1 << 40}, {"seconds": -1}, {"event_loop_utilisation": 2}, {"requests": -5},
    ]  # fmt: skip
    lines = [good, *({**good, "servers": {"h:1": {**good["servers"]["h:1"], **each}}} for each in bad)]  # type: ignore[index]
    path = tmp_path / "kernel.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    samples = read_samples([path])
    assert samples.servers["waiting"].to_list() == [1]
    assert samples.records.reasons == {"invalid_value": len(bad)}
