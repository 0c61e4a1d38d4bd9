"""tshark and what is read here say the same of captures: of real sockets and nginx on loopback, and of crafted packets.

tshark looks at one packet at a time (no reassembly): a head is reported in the packet it begins in. What differs by
definition, and is therefore kept out of the captures or named where it is compared:

- a segment that overlaps what came before but brings new bytes is a retransmission for tshark, and none here;
- tshark judges by time and acknowledgements whether a segment that comes late was out of order or retransmitted; here
  it is retransmitted when every byte of it has been seen, and out of order when it fills a hole;
- a FIN with a window of 0 does not count as a zero window for tshark;
- copies of packets on several interfaces are retransmissions for tshark.
"""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from segment_builder import ADDRESSES, CLIENT, MS, SERVER, Segment, Talk, answer, request
from sojourn.analyses.pcap.tracker import track
from sojourn.analyses.pcap.tracking_result import TrackingResult
from sojourn.readers.capture.reader import Capture

needs_tshark = pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
needs_capture = pytest.mark.skipif(
    not shutil.which("tcpdump") or os.geteuid() != 0, reason="capturing needs tcpdump and root"
)

FIELDS = (
    "frame.time_epoch", "tcp.stream", "tcp.srcport", "tcp.dstport", "tcp.flags", "tcp.len",
    "tcp.analysis.retransmission", "tcp.analysis.fast_retransmission", "tcp.analysis.spurious_retransmission",
    "tcp.analysis.zero_window", "http.request.method", "http.request.uri", "http.response.code", "http.time",
)  # fmt: skip
OPTIONS = ("tcp.desegment_tcp_streams:FALSE", "http.desegment_headers:FALSE", "http.desegment_body:FALSE")
SYN, ACK, RST = 0x02, 0x10, 0x04


def ns(text: str) -> int:
    return int(Decimal(text) * 10**9)


def tshark(path: Path, ports: list[int]) -> pl.DataFrame:
    """One row per segment, as tshark reads it; ``ports`` are those that speak HTTP."""
    command = ["tshark", "-n", "-r", str(path), "-Y", "tcp", "-T", "fields"]
    command += [part for field in FIELDS for part in ("-e", field)]
    command += [part for option in OPTIONS for part in ("-o", option)]
    command += [part for port in ports for part in ("-d", f"tcp.port=={port},http")]
    lines = subprocess.run(command, capture_output=True, check=True, timeout=60, text=True).stdout.splitlines()
    rows = [dict(zip(FIELDS, line.split("\t"), strict=True)) for line in lines]
    frame = pl.DataFrame(rows, schema=dict.fromkeys(FIELDS, pl.String))
    again = [
        pl.col(f"tcp.analysis.{kind}") != ""
        for kind in ("retransmission", "fast_retransmission", "spurious_retransmission")
    ]
    return frame.select(
        time=pl.col("frame.time_epoch").map_elements(ns, pl.Int64),
        connection=pl.col("tcp.stream").cast(pl.Int64),
        port=pl.col("tcp.srcport").cast(pl.Int32),
        flags=pl.col("tcp.flags").str.strip_prefix("0x").str.to_integer(base=16),
        length=pl.col("tcp.len").cast(pl.Int64),
        again=pl.any_horizontal(again),
        zero=pl.col("tcp.analysis.zero_window") != "",
        method=pl.col("http.request.method"),
        path=pl.col("http.request.uri"),
        status=pl.col("http.response.code"),
        took=pl.col("http.time"),
    )


def theirs(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """What tshark's rows say of each connection, in the words of CONNECTIONS."""
    matches = []
    for (stream,), frame in rows.group_by("connection", maintain_order=True):
        syn = frame.filter((pl.col("flags") & (SYN | ACK)) == SYN)
        if not syn.height:  # begun before the capture
            continue
        syn_ack = frame.filter((pl.col("flags") & (SYN | ACK)) == (SYN | ACK))
        client = syn["port"][0]
        begun = pl.col("time") > syn_ack["time"].min() if syn_ack.height else False
        after = frame.filter((pl.col("port") == client) & (pl.col("flags") & (SYN | RST) == 0) & begun)
        data = frame.filter(pl.col("length") > 0)
        of_client = pl.col("port") == client
        matches.append(
            {
                "connection": stream,
                "client_port": client,
                "packets": frame.height,
                "first": frame["time"][0],
                "last": frame["time"][-1],
                "syn": syn["time"][0],
                "syn_ack": syn_ack["time"].min(),
                "established": after["time"].min(),
                "client_data": data.filter(of_client)["time"].min(),
                "server_data": data.filter(~of_client)["time"].min(),
                "syn_retransmissions": syn["again"].sum(),
                "syn_ack_retransmissions": syn_ack["again"].sum(),
                "client_retransmissions": data.filter(of_client)["again"].sum(),
                "server_retransmissions": data.filter(~of_client)["again"].sum(),
                "client_zero_windows": frame.filter(of_client)["zero"].sum(),
                "server_zero_windows": frame.filter(~of_client)["zero"].sum(),
            }
        )
    return matches


def in_ns(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col(pl.Datetime).dt.epoch("ns"))


def read(path: Path) -> TrackingResult:
    with Capture([path]) as capture:
        return track(capture, capture.addresses)


def assert_agreement(tracking: TrackingResult, rows: pl.DataFrame) -> None:
    """Field by field: connections, and requests and answers with the instants of their first packets."""
    expected = theirs(rows)
    own = in_ns(tracking.connections).filter(pl.col("syn").is_not_null())
    assert own.select(expected[0].keys()).to_dicts() == expected
    exchanges = in_ns(tracking.exchanges)
    requested = (
        rows.filter(pl.col("method") != "").select("connection", "time", "method", "path").sort("connection", "time")
    )
    own = exchanges.select("connection", "request_first", "method", "path").sort("connection", "request_first")
    assert own.rows() == requested.rows()
    answered = rows.filter(pl.col("status") != "").select("connection", "time", pl.col("status").cast(pl.Int16), "took")
    own = exchanges.filter(pl.col("response_first").is_not_null()).select(
        "connection", "response_first", "status", took=pl.col("response_first") - pl.col("request_first")
    )
    theirs_rows = [(*row[:3], ns(row[3])) for row in answered.sort("connection", "time").rows()]
    assert own.sort("connection", "response_first").rows() == theirs_rows


# --- real sockets and nginx -----------------------------------------------------------------------------------


def wait_until(holds: Callable[[], Any], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.01)


FILE_HEADER = 24  # bytes: a capture without a packet


@contextmanager
def captured(path: Path, ports: list[int]) -> Iterator[None]:
    """Packets of these ports on loopback go to ``path`` while this lasts, and then a datagram that ends them."""
    last = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    last.bind(("127.0.0.1", 0))
    mark = os.urandom(16)
    # Handed over at once, each packet has a place as large as the largest may be: 8 MiB would be 32 of them.
    command = ["tcpdump", "-i", "lo", "-U", "--immediate-mode", "-s", "0", "-B", "65536", "-w", str(path)]
    parts = [*(f"tcp port {port}" for port in ports), f"udp port {last.getsockname()[1]}"]
    process = subprocess.Popen([*command, " or ".join(parts)], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if "listening on" in line:
                break
        yield
        # The sockets are silent when nothing has come for a while, and the file is complete when the datagram is in it.
        sizes: list[int] = []

        def quiet() -> bool:
            sizes.append(path.stat().st_size)
            return sizes[-1] > FILE_HEADER and len(sizes) > 20 and len(set(sizes[-20:])) == 1

        wait_until(quiet)
        last.sendto(mark, last.getsockname())
        wait_until(lambda: mark in path.read_bytes())
    finally:
        last.close()
        process.terminate()
        process.communicate(timeout=60)


def listening(backlog: int = 64) -> socket.socket:
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(backlog)
    return server


def serve(server: socket.socket) -> threading.Thread:
    """Answer requests that ask for /size/delay with that many bytes after so many ms, until the listener is shut."""

    def one(client: socket.socket) -> None:
        with suppress(OSError), client, client.makefile("rb") as incoming:
            while line := incoming.readline():
                fields = dict(iter(lambda: incoming.readline().decode().strip().lower().split(": "), [""]))
                incoming.read(int(fields.get("content-length", 0)))
                _, size, delay = line.split()[1].decode().split("/")
                time.sleep(int(delay) / 1000)
                body = b"" if line.startswith(b"HEAD") else b"x" * int(size)
                client.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode() + body)

    def run() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(client,), daemon=True).start()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def ask(client: socket.socket, path: str, method: str = "GET", body: bytes = b"") -> bytes:
    """Send a request, in two pieces where it has a body, and read the answer whole."""
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    client.sendall(head)
    client.sendall(body)
    incoming = b""
    while b"\r\n\r\n" not in incoming:
        incoming += client.recv(1 << 16)
    size = 0 if method == "HEAD" else int(incoming.split(b"Content-Length: ")[1].split(b"\r\n")[0])
    while len(incoming.split(b"\r\n\r\n", 1)[1]) < size:
        incoming += client.recv(1 << 16)
    return incoming


@pytest.fixture
def nginx(tmp_path: Path) -> Iterator[Callable[[int], int]]:
    """Starts nginx before a backend's port; returns the port it listens on."""
    if not shutil.which("nginx"):
        pytest.skip("nginx is not installed")
    started: list[subprocess.Popen[bytes]] = []

    def start(backend: int) -> int:
        with listening() as free:
            port: int = free.getsockname()[1]
        config = tmp_path / "nginx.conf"
        config.write_text(
            f"""daemon off; master_process off; pid {tmp_path}/nginx.pid; error_log {tmp_path}/error.log;
            events {{}}
            http {{
              access_log off; client_body_temp_path {tmp_path}/body; proxy_temp_path {tmp_path}/proxy;
              fastcgi_temp_path {tmp_path}/f; uwsgi_temp_path {tmp_path}/u; scgi_temp_path {tmp_path}/s;
              upstream app {{ server 127.0.0.1:{backend}; keepalive 4; }}
              server {{
                listen 127.0.0.1:{port};
                location / {{
                  proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection "";
                  proxy_set_header X-Request-ID $request_id; proxy_set_header X-Request-Start "t=$msec";
                }}
              }}
            }}"""
        )
        started.append(subprocess.Popen(["nginx", "-p", str(tmp_path), "-c", str(config)]))

        def answers() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        wait_until(answers)
        return port

    yield start
    for process in started:
        process.terminate()
        process.wait(timeout=60)


@needs_tshark
@needs_capture
def test_agreement_on_what_sockets_and_nginx_do(tmp_path: Path, nginx: Callable[[int], int]) -> None:
    path = tmp_path / "lo.pcap"
    backend, full, stuck = listening(), listening(0), listening()
    serve(backend)
    ports = [server.getsockname()[1] for server in (backend, full, stuck)]
    with listening() as shut:
        closed: int = shut.getsockname()[1]
    proxy = nginx(ports[0])
    with captured(path, [*ports, proxy, closed]):
        # Requests on kept-alive connections through nginx: bodies both ways, a slow one, HEAD.
        with socket.create_connection(("127.0.0.1", proxy)) as client:
            for k in range(5):
                ask(client, f"/{k * 40_000}/{10 * k}")
            ask(client, "/10/0", "POST", b"b" * 50_000)
            ask(client, "/99/0", "HEAD")
        # An accept queue of one place, taken: the second SYN is repeated until accept() makes room.
        unaccepted = socket.create_connection(("127.0.0.1", ports[1]))
        late = socket.socket()
        late.setblocking(False)
        late.connect_ex(("127.0.0.1", ports[1]))
        # A receiver that does not read: its window closes.
        slow = socket.create_connection(("127.0.0.1", ports[2]))
        accepted, _ = stuck.accept()
        slow.setblocking(False)
        sent = 0
        with suppress(BlockingIOError):
            while True:
                sent += slow.send(b"s" * 65536)
        time.sleep(0.3)  # a probe of the closed window
        while sent:
            sent -= len(accepted.recv(1 << 20))
        # Refused, and reset.
        with socket.socket() as refused:
            assert refused.connect_ex(("127.0.0.1", closed)) != 0
        rude = socket.create_connection(("127.0.0.1", ports[0]))
        rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        rude.close()
        first, _ = full.accept()
        late.setblocking(True)
        second, _ = full.accept()
        for one in (unaccepted, late, slow, accepted, first, second):
            one.close()
    for server in (backend, full, stuck):
        server.close()
    result = read(path)
    assert_agreement(result, tshark(path, [ports[0], proxy]))
    by_port = {port: result.connections.filter(pl.col("server_port") == port) for port in (*ports, closed)}
    assert by_port[closed]["end"].to_list() == ["refused"]
    assert by_port[ports[1]]["syn_retransmissions"].to_list() > [0, 0]
    assert by_port[ports[2]]["server_zero_windows"].sum() > 0
    assert "reset_by_client" in by_port[ports[0]]["end"].to_list()
    # Only here: the exchanges of either side, joined by what nginx sent.
    backend_side = result.exchanges.filter(pl.col("request_id").is_not_null())
    assert backend_side.height == 7
    assert result.exchanges.height == 14
    assert backend_side["request_id"].str.len_chars().to_list() == [32] * 7


@needs_tshark
@needs_capture
@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_agreement_on_tls(tmp_path: Path, version: ssl.TLSVersion) -> None:
    """The hellos are where tshark sees them; the turns are those that the client made, by its own clock."""
    key, certificate = str(tmp_path / "key"), str(tmp_path / "certificate")
    make = ["openssl", "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    subprocess.run([*make, "-subj", "/CN=x", "-keyout", key, "-out", certificate], check=True, capture_output=True)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate, key)
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname, asking.verify_mode = False, ssl.CERT_NONE
    asking.minimum_version = asking.maximum_version = version
    turns = []
    with listening() as plain:
        server = serving.wrap_socket(plain, server_side=True)
        port = server.getsockname()[1]
        serve(server)
        with captured(tmp_path / "tls.pcap", [port]):
            client = asking.wrap_socket(socket.create_connection(("127.0.0.1", port)))
            for k in range(3):
                began = time.time_ns()
                ask(client, f"/{10 + 20_000 * k}/30")
                turns.append((began, time.time_ns()))
            client.close()
        server.close()
    result = read(tmp_path / "tls.pcap")
    command = ["tshark", "-n", "-r", str(tmp_path / "tls.pcap"), "-d", f"tcp.port=={port},tls", "-T", "fields"]
    fields = ["-e", "frame.time_epoch", "-e", "tls.handshake.type"]
    lines = subprocess.run([*command, *fields], capture_output=True, check=True, text=True).stdout.splitlines()
    hellos = {
        kind: ns(
            next(when for when, _, kinds in (line.partition("\t") for line in lines) if kinds.split(",")[0] == kind)
        )
        for kind in ("1", "2")
    }
    row = in_ns(result.connections).row(0, named=True)
    assert (row["tls_client_hello"], row["tls_server_hello"]) == (hellos["1"], hellos["2"])
    # The server answers 30 ms after the request.
    assert turns[0][0] <= row["tls_ready"] < turns[0][1] - 29 * MS
    exchanges = in_ns(result.exchanges).to_dicts()
    assert len(exchanges) == 3
    for (began, ended), one in zip(turns, exchanges, strict=True):
        assert began <= one["request_first"] <= one["request_last"] < one["response_first"]
        assert one["response_first"] - one["request_first"] >= 29 * MS, "tickets are no answer"
        assert one["response_last"] <= ended


# --- crafted packets ------------------------------------------------------------------------------------------


def written(path: Path, segments: list[Segment]) -> Path:
    """A capture of the segments: what was not kept of a payload is cut off, as by a snap length."""
    records = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 101)]  # ns, raw IP
    for one in sorted(segments, key=lambda segment: segment.time):
        ends = [socket.inet_aton(ADDRESSES[end]) for end in (one.source, one.target)]
        length = 40 + (len(one.payload) if one.length is None else one.length)
        numbers = one.source_port, one.target_port, one.seq % 2**32, one.ack % 2**32, 0x50, one.flags, one.window, 0, 0
        packet = struct.pack("!BBHHHBBH4s4s", 0x45, 0, length, one.ip_id, 0x4000, 64, 6, 0, *ends)
        packet += struct.pack("!HHIIBBHHH", *numbers) + one.payload
        records.append(struct.pack("<IIII", *divmod(one.time, 10**9), len(packet), length) + packet)
    path.write_bytes(b"".join(records))
    return path


def lossy_talk() -> Talk:
    """SYNs and SYN-ACKs repeated; payload repeated after a time-out, in part, and after three equal ACKs."""
    talk = Talk()
    for ms in (0, 1000, 3000):
        talk.syn(ms)
    talk.syn_ack(3001)
    talk.ack(3002)
    talk.syn_ack(4001)
    talk.ack(4002)
    requested = talk.ask(4010, request("/lost"))
    talk.again(4300, requested)
    talk.again(4900, requested)
    talk.ack(4901, SERVER)
    text = answer(body=b"x" * 5000)
    begins = talk.next[SERVER]
    parts = [talk.answer(5000 + k, text[1000 * k : 1000 * (k + 1)]) for k in range(6)]
    talk.segments.remove(parts[1])  # lost before the capture
    for k in range(4):
        talk.send(5020 + k, CLIENT, ACK)
        talk.segments[-1] = replace(talk.segments[-1], ack=begins + 1000)
    talk.again(5200, parts[1])
    talk.ack(5201)
    talk.again(5500, parts[5])  # spurious: it has been acknowledged
    talk.ask(6000, request("/next", "X-Request-ID: 7"))
    talk.send(6100, SERVER, ACK, window=0)
    talk.answer(6200, answer(404))
    talk.fin(7000, SERVER)
    talk.fin(7001, CLIENT)
    return talk


@needs_tshark
def test_agreement_on_crafted_packets(tmp_path: Path) -> None:
    again = Talk(client_isn=5_000_000, server_isn=6_000_000)  # the ports are used again
    again.syn(8000)
    again.syn_ack(8001)
    again.ack(8002)
    again.ask(8003, request("/again", method="POST", body=b"b" * 2000), captured=120)
    again.answer(8010, answer(201, body=b"a" * 900), captured=120)
    again.reset(8020, SERVER)
    wrapping = Talk(client_port=41_000, client_isn=2**32 - 50, server_isn=2**32 - 9).opened()
    for k in range(3):
        wrapping.ask(10 * k + 10, request(f"/{k}"))
        wrapping.answer(10 * k + 15, answer(200 + k, body=b"w" * 300))
    shut = Talk(client_port=42_000)
    shut.syn(1)
    shut.reset(2, SERVER)
    silent = Talk(client_port=43_000)
    for ms in (0.5, 1000.5, 2000.5):
        silent.syn(ms)
    talks = (lossy_talk(), again, wrapping, shut, silent)
    path = written(tmp_path / "crafted.pcap", [segment for talk in talks for segment in talk.segments])
    result = read(path)
    rows = tshark(path, [80])
    # tshark takes what fills a hole for a retransmission when it comes 3 ms or a round trip late.
    filled = rows.filter((pl.col("time") == 5200 * MS) & pl.col("again"))
    assert filled.height == 1
    rows = rows.with_columns(again=pl.col("again") & (pl.col("time") != 5200 * MS))
    assert_agreement(result, rows)
    by_port = {row["client_port"]: row for row in result.connections.to_dicts()}
    assert [by_port[port]["end"] for port in (41_000, 42_000, 43_000)] == ["open", "refused", "unanswered"]
    lossy = result.connections.row(result.connections["syn_retransmissions"].arg_max() or 0, named=True)
    assert (lossy["syn_retransmissions"], lossy["acks_doubtful"], lossy["client_retransmissions"]) == (2, 1, 2)
