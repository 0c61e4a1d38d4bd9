"""What is made of samples of the kernel: figures, findings, a section, a chart; and what becomes of bad ones."""

from __future__ import annotations

import json
import re
import socket
import threading
from pathlib import Path

import msgspec
import polars as pl
import pytest
from sojourn.analyses.kernel.analysis import kernel
from sojourn.analyses.kernel.charts_accept_queue import accept_queue
from sojourn.analyses.kernel.findings import repeated_syns
from sojourn.analyses.kernel.result import KernelResult
from sojourn.analyses.kernel.section import kernel_section
from sojourn.cli import app
from sojourn.host import kernel_queues as look
from sojourn.host import sock_diag
from sojourn.host.counters import counters, settings, tcp_ext
from sojourn.host.kernel_queues import KernelProbe
from sojourn.host.sample import COUNTERS, Listener, Raindrops, Sample
from sojourn.host.samples import read_samples, samples_of
from sojourn.host.servers.answers import raindrops_of
from sojourn.host.servers.asker import Asker
from sojourn.host.servers.kinds import Server
from sojourn.host.sock_diag import ListeningSocket, handshakes, listening_sockets_of_ss, syn_recv_counts_of_ss
from sojourn.host.unix_diag import listening_unix_sockets_of_ss
from sojourn.model.errors import KernelUnavailableError, SojournError
from typer.testing import CliRunner

START = 1_767_225_600.0
SETTINGS = {"somaxconn": 4096, "tcp_abort_on_overflow": 0, "tcp_syncookies": 1, "tcp_syn_retries": 6}


def listener(depth: int, limit: int = 4, **more: object) -> Listener:
    return Listener(**{"name": "app", "address": "0.0.0.0", "port": 8000, "depth": depth, "limit": limit, **more})  # type: ignore[arg-type]


def samples(
    depths: list[int],
    overflows: list[int] | None = None,
    *,
    limit: int = 4,
    settings: dict[str, int] | None = None,
    **more: list[int],
) -> list[Sample]:
    """A sample a second; counters begin where they like."""
    counted = {"ListenOverflows": overflows or [0] * len(depths), **more}
    counted.setdefault("ListenDrops", counted["ListenOverflows"])
    return [
        Sample(
            time=START + second,
            sockets=[listener(depth, limit)],
            counters={name: values[second] for name, values in counted.items()},
            settings={**SETTINGS, **(settings or {})} if second == 0 else {},
        )
        for second, depth in enumerate(depths)
    ]


def findings_of(produced: list[Sample], **requested: int) -> KernelResult:
    return kernel(samples_of(produced), backlogs={int(port[1:]): backlog for port, backlog in requested.items()})


def keys(result: KernelResult) -> list[str]:
    return [finding.key for finding in result.findings]


def test_full_is_one_more_than_the_limit() -> None:
    findings = findings_of(samples([0, 4, 5, 5, 2], [70, 70, 73, 79, 79]))
    (row,) = findings.sockets.to_dicts()
    assert (row["deepest"], row["full"], row["full_share"], row["mean"], row["last"]) == (5, 2, 0.4, 3.2, 2)
    assert row["deepest_at"].timestamp() == START + 2
    assert (findings.overflows, findings.other_drops, findings.unseen, findings.seconds) == (9, 0, 0, 4.0)
    assert keys(findings) == ["overflowed", "filled", "steps"]


def test_drops_that_are_no_overflows_are_not_counted_twice() -> None:
    produced = samples([0, 0], [5, 8], ListenDrops=[5, 12], TCPReqQFullDrop=[0, 3], settings={"tcp_syncookies": 0})
    findings = findings_of(produced)
    assert (findings.overflows, findings.other_drops, findings.syn_drops) == (3, 4, 3)
    assert set(keys(findings)) == {"overflowed", "missed", "other_drops", "cookies_off", "steps"}
    assert "4 packets more were dropped" in next(f.sentence for f in findings.findings if f.key == "other_drops")


def test_overflows_without_a_full_sample_are_separate() -> None:
    # 6 are beside a sample that saw the queue full, 3 are not.
    findings = findings_of(samples([0, 5, 0, 0], [0, 2, 6, 9]))
    assert (findings.overflows, findings.unseen) == (9, 3)
    missed = next(f for f in findings.findings if f.key == "missed")
    assert missed.sentence.startswith("3 of the 9 packets")


def test_counters_that_go_back_are_said_and_not_counted() -> None:
    findings = findings_of(samples([0] * 5, [100, 104, 2, 3, 3]))
    assert (findings.overflows, findings.resets) == (5, 1)
    assert any("went back" in failure for failure in kernel_section(findings).failures)


def test_values_without_samples_are_unknown() -> None:
    result = kernel(samples_of([Sample(time=START, sockets=[listener(5)])]))
    assert (result.overflows, result.other_drops, result.cookies, result.period) == (None, None, None, None)
    assert result.sockets["syn_recv"].to_list() == [None]
    assert "is unknown" in kernel_section(result).sentence
    with pytest.raises(SojournError, match="no sample"):
        kernel(samples_of([]))


@pytest.mark.parametrize(
    ("limit", "somaxconn", "requested", "key", "text"),
    [
        (128, 128, 511, "cut", "net.core.somaxconn is 128 in this network namespace and cut it"),
        (128, 4096, 511, "cut", "was lower when it began to listen"),
        (128, 256, 511, "cut", "a backlog of 511 and has 128."),
        (128, 128, None, "probably_cut", "net.core.somaxconn, 128"),
        (511, 4096, 511, None, ""),
        (511, 4096, None, None, ""),
        (128, 128, 128, None, ""),
    ],
)
def test_backlog_cut_by_the_kernel(
    limit: int, somaxconn: int, requested: int | None, key: str | None, text: str
) -> None:
    produced = samples([0, 0], limit=limit, settings={"somaxconn": somaxconn})
    findings = findings_of(produced, **({} if requested is None else {"p8000": requested}))
    assert keys(findings) == ([] if key is None else [key])
    assert all(text in finding.sentence for finding in findings.findings)


def test_a_sample_can_contain_the_requested_backlog() -> None:
    items = [Sample(time=START, sockets=[listener(0, 128, backlog_requested=2048)], settings={"somaxconn": 128})]
    (finding,) = kernel(samples_of(items)).findings
    assert finding.key == "cut"
    assert "2,048" in finding.sentence
    assert "somaxconn=2048" in finding.mend


@pytest.mark.parametrize(
    ("setting", "value", "key"),
    [
        ("tcp_abort_on_overflow", 1, "abort_on_overflow"),
        ("tcp_syncookies", 0, "cookies_off"),
        ("tcp_syncookies", 2, "cookies_always"),
    ],
)
def test_settings_worth_knowing(setting: str, value: int, key: str) -> None:
    assert keys(findings_of(samples([0, 0], settings={setting: value}))) == [key]


def test_settings_that_changed_on_the_way() -> None:
    items = [*samples([0, 0]), Sample(time=START + 2, settings={"somaxconn": 8})]
    findings = findings_of(items)
    assert (findings.settings["somaxconn"], findings.changed) == (8, ("somaxconn",))


def test_handshakes_open_while_the_queue_was_full_are_said() -> None:
    items = [
        Sample(
            time=START + second,
            sockets=[listener(depth, syn_recv=open_)],
            counters={"ListenOverflows": second, "ListenDrops": second},
        )
        for second, (depth, open_) in enumerate([(5, 3), (5, 7), (0, 20)])
    ]
    findings = findings_of(items)
    (row,) = findings.sockets.to_dicts()
    assert (row["syn_recv"], row["open_while_full"]) == (20, 7)
    assert "up to 7 handshakes open" in next(f.sentence for f in findings.findings if f.key == "filled")


def test_missing_samples_and_a_clock_set_back_are_said() -> None:
    produced = samples([0] * 8)
    findings = findings_of([*produced[:3], *produced[6:]])
    assert (findings.missing, findings.backward) == (3, 0)
    assert findings.depths["depth"].to_list() == [0, 0, 0, None, 0, 0]
    back = findings_of([*produced[3:], *produced[:3]])
    assert back.backward == 1
    assert back.seconds == 6.0


def test_sockets_of_one_name_are_distinguished_by_their_address() -> None:
    both = [listener(1), listener(2, address="::1")]
    findings = findings_of([Sample(time=START, sockets=both)])
    assert set(findings.sockets["socket"]) == {"app at 0.0.0.0:8000", "app at [::1]:8000"}


def test_a_long_recording_is_drawn_in_windows_that_keep_its_peaks() -> None:
    depths = [5 if second == 1234 else 1 for second in range(3000)]
    findings = findings_of(samples(depths, [2 * max(second - 1000, 0) for second in range(3000)]))
    assert len(findings.depths) <= 240
    assert findings.depths["depth"].max() == 5
    assert len(findings.events) <= 240
    assert findings.events["overflows"].sum() == findings.overflows == 2 * 1999
    chart = json.loads(accept_queue(findings).to_json())
    assert len(chart["vconcat"]) == 2


def test_the_chart_has_a_panel_for_each_queue_and_bars_from_nothing() -> None:
    items = [
        Sample(
            time=START + second,
            sockets=[listener(depth, syn_recv=1), listener(1, 511, name="web\x1b[31m", port=80, syn_recv=0)],
            counters={"ListenOverflows": 3 * second, "ListenDrops": 4 * second, "TCPReqQFullDrop": second},
        )
        for second, depth in enumerate([0, 5, 5])
    ]
    findings = findings_of(items)
    chart = json.loads(accept_queue(findings).to_json())
    app_panel, web, away, open_ = chart["vconcat"]
    assert [len(app_panel["layer"]), "layer" in web] == [2, False]
    assert web["title"]["text"] == r"accept queue of web\x1b[31m (full at 512, far above this scale)"
    bars = chart["datasets"][away["data"]["name"]]
    assert {(bar["reason"], bar["bottom"], bar["top"]) for bar in bars} == {
        ("accept queue full", 0, 3),
        ("SYN queue full", 3, 4),
    }
    assert open_["encoding"]["y"]["field"] == "syn_recv"


def test_when_a_client_repeats_its_syn() -> None:
    # 67 s: as the kernel's ip-sysctl.rst has it for six retries after four linear ones. Before Linux 6.5: 63 s.
    assert repeated_syns(4, 6) == [1, 2, 3, 4, 5, 7, 11, 19, 35, 67]
    assert repeated_syns(0, 6) == [1, 3, 7, 15, 31, 63]


def test_a_section_says_what_is_the_matter_first() -> None:
    quiet = kernel_section(findings_of(samples([0, 3])))
    assert quiet.sentence == (
        "No accept queue was full: the deepest, of app, held 3 of at most 5 connections, and no packet was turned away "
        "for one (2 samples in 1.0 s)."
    )
    full = kernel_section(findings_of(samples([5, 5], [0, 1_200])))
    assert full.sentence == (
        "The accept queue of app was full, 5 connections, in 100 % of 2 samples in 1.0 s, and the kernel turned away "
        "1,200 packets for a full queue."
    )
    assert "no sample saw one full" in kernel_section(findings_of(samples([0, 0], [0, 4]))).sentence
    assert "No listening socket" in kernel_section(findings_of([Sample(time=START)])).sentence
    for section in (quiet, full):
        assert all(len(row) == len(table.headings) for table in section.tables for row in table.rows)


# Reading


def written(path: Path, *lines: bytes) -> Path:
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def test_bad_lines_are_counted_by_reason_and_lose_nothing_else(tmp_path: Path) -> None:
    good = [msgspec.json.encode(sample) for sample in samples([1, 2, 3])]
    text = good[0].decode()
    bad = [
        b"", b"{", b"null", b"[1]", b'{"time": "now"}', b'{"time": 1e400}', b'{"time": -1}', b"\xff\xfe",
        b"[" * 100_000,
        text.replace('"depth":1', '"depth":-1').encode(), text.replace('"port":8000', '"port":70000').encode(),
        text.replace('"ListenOverflows":0', '"ListenOverflows":99999999999999999999').encode(),
        b'{"time": 1, "raindrops": {"u": {"calling": 1, "writing": 1, "listeners": {"a": [-1, 0]}, "seconds": 1}}}',
    ]  # fmt: skip
    read = read_samples([written(tmp_path / "kernel.jsonl", *good[:2], *bad, good[2])])
    assert read.sockets["depth"].to_list() == [1, 2, 3]
    assert read.records.read == len(good) + len(bad)
    assert sum(read.records.reasons.values()) == len(bad) == len(read.records.rejects)
    assert read.records.reasons["empty_line"] == 1
    assert read.records.reasons["invalid_value"] >= 5
    section = kernel_section(kernel(read))
    assert section.failures[0].startswith(f"{len(bad)} of {len(good) + len(bad)} lines were refused")


def test_files_are_read_in_the_order_of_their_first_sample(tmp_path: Path) -> None:
    items = [msgspec.json.encode(sample) for sample in samples([1, 2, 3, 4])]
    later, earlier = written(tmp_path / "a", *items[2:]), written(tmp_path / "b", *items[:2])
    assert read_samples([later, earlier]).sockets["depth"].to_list() == [1, 2, 3, 4]
    assert read_samples([earlier], ports=[80]).sockets.is_empty()


def test_rejects_files_that_are_not_recordings(tmp_path: Path) -> None:
    for name, text, output in [
        ("a", b"", "0 lines read"),
        ("b", b"x\n", "1 line read, all refused .not_a_sample 1."),
        ("c", b"PAR1....", "JSON lines"),
    ]:
        (tmp_path / name).write_bytes(text)
        with pytest.raises(SojournError, match=output):
            read_samples([tmp_path / name])
    with pytest.raises(SojournError, match=r"no kernel\.jsonl"):
        read_samples([tmp_path])
    with pytest.raises(SojournError, match="no such file"):
        read_samples([tmp_path / "none"])


# What the kernel, ss and raindrops print


def test_counters_of_netstat() -> None:
    text = "TcpExt: SyncookiesSent ListenOverflows Odd\nTcpExt: 1 2 x\nIpExt: InNoRoutes\nIpExt: 9\n"
    assert tcp_ext(text) == {"SyncookiesSent": 1, "ListenOverflows": 2}
    assert tcp_ext("TcpExt: ListenOverflows\n") == {}
    with pytest.raises(KernelUnavailableError, match="No such file"):
        counters(Path("/nowhere"))


def test_settings_that_a_kernel_does_not_have_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "net/core").mkdir(parents=True)
    (tmp_path / "net/core/somaxconn").write_text("128\n")
    assert settings(tmp_path) == {"somaxconn": 128}
    with pytest.raises(KernelUnavailableError, match="settings"):
        settings(tmp_path / "net")


def test_parses_the_output_of_ss() -> None:
    text = (
        "LISTEN 3      511          0.0.0.0:80        0.0.0.0:*\n"
        "LISTEN 0      128             [::]:80           [::]:*\n"
        "LISTEN 1      64                 *:8000            *:*\n"
        "LISTEN 0      4     192.0.2.1%eth0:53        0.0.0.0:*\n"
        "LISTEN 0      5      [fe80::1]%eth0:54          [::]:*\n"
        "ESTAB  0      0          127.0.0.1:80      127.0.0.1:1\n"
        "garbage\n"
    )
    assert listening_sockets_of_ss(text) == [
        ListeningSocket("192.0.2.1", 53, 0, 4),
        ListeningSocket("fe80::1", 54, 0, 5),
        ListeningSocket("0.0.0.0", 80, 3, 511),
        ListeningSocket("::", 80, 0, 128),
        ListeningSocket("*", 8000, 1, 64),
    ]
    with pytest.raises(KernelUnavailableError, match="limits"):
        listening_sockets_of_ss("LISTEN 3 0 0.0.0.0:80 0.0.0.0:*\n")
    assert syn_recv_counts_of_ss("0 0 192.0.2.1:80 192.0.2.9:1\n0 0 192.0.2.1:80 192.0.2.9:2\n") == {
        ("192.0.2.1", 80): 2
    }


def test_handshakes_belong_to_the_socket_that_listens_closest() -> None:
    sockets = [
        ListeningSocket(address, port, 0, 1)
        for address, port in [("0.0.0.0", 80), ("192.0.2.1", 80), ("::", 81), ("*", 82)]
    ]
    counts = {
        ("192.0.2.1", 80): 1, ("192.0.2.2", 80): 2, ("::ffff:192.0.2.2", 81): 4, ("2001:db8::1", 81): 8,
        ("192.0.2.2", 82): 16, ("2001:db8::1", 82): 32, ("192.0.2.2", 83): 64, ("2001:db8::1", 80): 128,
    }  # fmt: skip
    assert handshakes(sockets, counts) == {("0.0.0.0", 80): 2, ("192.0.2.1", 80): 1, ("::", 81): 12, ("*", 82): 48}


def test_falls_back_to_ss_without_netlink_and_reports_when_neither_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: object) -> socket.socket:
        raise PermissionError(1, "Operation not permitted")

    answers = {
        "-Htln": "LISTEN 3 511 0.0.0.0:80 0.0.0.0:*", "-Htn": "0 0 192.0.2.1:80 192.0.2.9:1",
        "-Hxln": "u_str LISTEN 1 5 /run/a 7 * 0",
    }  # fmt: skip
    monkeypatch.setattr(sock_diag.socket, "socket", refused)
    monkeypatch.setattr(look, "ss_output", lambda *arguments: answers[arguments[0]])
    seen = KernelProbe({"web": 80}).sample()
    assert seen.sockets == [Listener("web", "0.0.0.0", 80, 3, 511, 1)]
    assert seen.unavailable == {
        "netlink": "sock_diag over netlink failed: [Errno 1] Operation not permitted; ss was read instead"
    }
    unix = KernelProbe(unix={"app": "/run/a"}).sample()
    assert unix.sockets == [Listener("app", "/run/a", 0, 1, 5)]
    assert unix.unavailable["netlink"].endswith("ss was read instead")
    monkeypatch.setattr(look, "ss_output", sock_diag.ss_output)
    monkeypatch.setattr(sock_diag.shutil, "which", lambda *_, **__: None)
    unavailable = KernelProbe().sample().unavailable
    assert unavailable["sockets"].endswith("not permitted; ss is not installed")
    assert unavailable["unix_sockets"].endswith("not permitted; ss is not installed")


def test_an_answer_of_raindrops() -> None:
    text = (
        "calling: 3\nwriting: 1\n0.0.0.0:8080 active: 4\n0.0.0.0:8080 queued: 9\n"
        "/run/app.sock active: 1\n/run/app.sock queued: 2\n"
    )
    assert raindrops_of(text, 0.01) == Raindrops(3, 1, {"0.0.0.0:8080": (4, 9), "/run/app.sock": (1, 2)}, 0.01)
    with pytest.raises(ValueError, match="raindrops"):
        raindrops_of("<html>404</html>", 0.0)
    findings = findings_of(
        [
            Sample(time=START + k, raindrops={"u": answer})
            for k, answer in enumerate([raindrops_of(text, 0.01), "no answer"])
        ]
    )
    assert findings.raindrops.to_dicts() == [
        {"endpoint": "u", "answers": 1, "unanswered": 1, "slowest": 0.01, "calling": 3, "queued": 11}
    ]


@pytest.mark.parametrize(
    ("url", "where"),
    [
        ("http://127.0.0.1:8080", ("127.0.0.1", 8080, None, "/_raindrops")),
        ("http://[::1]:8080/stats", ("::1", 8080, None, "/stats")),
        ("http://unix:/run/app.sock:/_raindrops", ("localhost", 80, "/run/app.sock", "/_raindrops")),
        ("http://unix:/run/app.sock", ("localhost", 80, "/run/app.sock", "/_raindrops")),
    ],
)
def test_addresses_of_raindrops_endpoints(url: str, where: tuple[object, ...]) -> None:
    server = Server("unicorn", url)
    assert (server.address.host, server.address.port, server.address.socket, *server.targets) == where


@pytest.mark.parametrize("url", ["ftp://x", "x:80", "http://", "http://x:port/", "http://x/a\r\nHost: y"])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(SojournError, match="raindrops is queried at"):
        Server("unicorn", url)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\ncalling: 2\nwriting: 0\n", None),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "no answer: it answered 404"),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", "no answer: the answer is not from raindrops"),
        (b"\x00\x1b[31m\r\n\r\n", r"no answer: \x00\x1b[31m\r\n"),
        (b"", "no answer: Remote end closed connection without response"),
    ],
)
def test_reads_answers_of_a_unix_socket(tmp_path: Path, answer: bytes, said: str | None) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen(1)

        def serve() -> None:
            connection = listening.accept()[0]
            with connection:
                connection.recv(1000)
                connection.sendall(answer)

        server = threading.Thread(target=serve)
        server.start()
        result = Asker(Server("unicorn", f"http://unix:{tmp_path}/s")).sample(10.0)
        server.join()
    if said is None:
        assert isinstance(result, Raindrops)
        assert (result.calling, result.listeners) == (2, {})
    else:
        assert result == said


def test_an_endpoint_that_does_not_answer_is_reported() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        answer = Asker(Server("unicorn", f"http://127.0.0.1:{bound.getsockname()[1]}")).sample(5.0)
    assert answer == "no answer: [Errno 111] Connection refused"


# The command


def run(*arguments: object) -> str:
    result = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"}).invoke(app, ["kernel", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    produced = samples([0, 5, 5, 1], [0, 2, 9, 9])
    return written(tmp_path / "kernel.jsonl", *map(msgspec.json.encode, produced))


def test_a_recording_is_explained(recording: Path) -> None:
    document = json.loads(run(recording, "--json", "--backlog", "8000=511"))
    assert (document["listen_overflows"], document["sockets"][0]["full"], document["sockets"][0]["asked"]) == (
        9,
        2,
        511,
    )
    assert document["window"] == {"from": "2026-01-01T00:00:00.000Z", "to": "2026-01-01T00:00:03.000Z", "seconds": 3.0}
    assert document["records"] == {
        "read": 4,
        "accepted": 4,
        "rejected": 0,
        "reasons": {},
        "dropped": {},
        "set_apart": None,
    }
    assert [finding["key"] for finding in document["findings"]] == ["overflowed", "filled", "cut", "steps"]
    assert "was full, 5 connections, in 50 % of 4 samples" in " ".join(run(recording.parent).split())


def test_backlogs_from_the_nginx_configuration(recording: Path, tmp_path: Path) -> None:
    conf = tmp_path / "nginx.conf"
    conf.write_text(
        "events {}\nhttp { server { listen 8000 backlog=1024; } server { listen 8000; server_name x; } "
        "server { listen 8001; } }\n"
    )
    document = json.loads(run(recording, "--json", "--nginx", conf))
    assert document["sockets"][0]["asked"] == 1024


def test_unix_sockets_by_path(tmp_path: Path) -> None:
    unix = {"address": "/run/a=b.sock", "port": 0}
    items = [Sample(time=START + second, sockets=[listener(1), listener(5, name="app", **unix)]) for second in range(2)]
    path = written(tmp_path / "kernel.jsonl", *map(msgspec.json.encode, items))
    conf = tmp_path / "nginx.conf"
    conf.write_text("events {} http { server { listen unix:/run/a=b.sock; } }\n")
    document = json.loads(run(path, "--json", "--unix", "/run/a=b.sock", "--nginx", conf))
    (row,) = document["sockets"]
    assert (row["socket"], row["address"], row["port"], row["asked"], row["full"]) == (
        "app",
        "/run/a=b.sock",
        None,
        511,
        2,
    )
    both = json.loads(
        run(path, "--json", "--backlog", "/run/a=b.sock=64", "--unix", "x=/run/a=b.sock", "--port", "8000")
    )
    assert {(row["socket"], row["asked"]) for row in both["sockets"]} == {
        ("app at /run/a=b.sock", 64),
        ("app at 0.0.0.0:8000", None),
    }
    assert "what a full Unix socket refuses is not counted" in " ".join(run(path).split())


def test_a_full_unix_socket_is_not_blamed_for_overflows_of_tcp() -> None:
    items = [
        Sample(
            time=START + second,
            sockets=[listener(5, name="/run/a", address="/run/a", port=0), listener(0)],
            counters={"ListenOverflows": 3 * second, "ListenDrops": 3 * second},
        )
        for second in range(3)
    ]
    result = findings_of(items)
    assert (result.overflows, result.unseen) == (6, 6)
    filled = next(finding for finding in result.findings if finding.key == "filled")
    assert (filled.socket, filled.weight) == ("/run/a", "risk")
    assert "EAGAIN" in filled.sentence
    assert "6 packets" not in kernel_section(result).sentence


def test_somaxconn_is_noted_for_unix_sockets_that_are_used() -> None:
    def noted(depth: int) -> list[str]:
        sockets = [listener(depth, 128, name="/run/a", address="/run/a", port=0)]
        return keys(findings_of([Sample(time=START, sockets=sockets, settings={"somaxconn": 128})]))

    assert (noted(0), noted(1)) == ([], ["probably_cut"])


def test_reads_the_unix_sockets_of_ss() -> None:
    text = (
        "u_str LISTEN 3      2      /run/a b.sock 64283 * 0\n"
        "u_seq LISTEN 0      4096   /run/udev/control 5    * 0  \n"
        "u_str LISTEN 0      5      @abstract 64284 * 0\n"
        "u_str UNCONN 0      0                         * 64291 * 0\n"
        "garbage\n"
    )
    assert listening_unix_sockets_of_ss(text) == [
        ListeningSocket("/run/a b.sock", 0, 3, 2),
        ListeningSocket("/run/udev/control", 0, 0, 4096),
        ListeningSocket("@abstract", 0, 0, 5),
    ]
    with pytest.raises(KernelUnavailableError, match="limits"):
        listening_unix_sockets_of_ss("u_str LISTEN 0 0 /run/a 1 * 0\n")


def test_a_page(recording: Path, tmp_path: Path) -> None:
    page = tmp_path / "kernel.html"
    run(recording, "--html", page)
    text = page.read_text()
    assert "The accept queue over time" in text
    assert "was full, 5" in re.sub(r"\s+", " ", text)


def test_one_look_has_no_rates() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(7)
        port = listening.getsockname()[1]
        document = json.loads(run("--once", "--json", "--port", f"here={port}", "--backlog", f"{port}=9"))
    (row,) = document["sockets"]
    assert (row["socket"], row["last"], row["limit"], row["asked"], document["samples"]) == ("here", 0, 7, 9, 1)
    assert document["counters"] == {}
    assert document["settings"]["somaxconn"] >= 7


def test_a_recording_of_this_machine_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "k.jsonl"
    document = json.loads(run("--out", path, "--seconds", "0.2", "--period", "0.05", "--json"))
    assert document["samples"] == len(path.read_bytes().splitlines()) >= 3
    assert set(document["counters"]) <= set(COUNTERS)


def test_the_bpftrace_script_is_shipped() -> None:
    text = run("--bpftrace")
    assert text.startswith("#!/usr/bin/env bpftrace")
    assert "NOT RUN IN THIS PROJECT'S TESTS" in text


@pytest.mark.parametrize(
    "arguments",
    [
        ["--port", "x"], ["--port", "a=0"], ["--port", "70000"], ["--port", "a=1", "--port", "a=2"],
        ["--backlog", "80"], ["--backlog", "80=x"], ["--backlog", "app.sock=1"], ["--unix", "app.sock"],
        ["--unix", "a="], ["--unix", "a=/b", "--unix", "a=/c"], ["F", "--server", "uwsgi=h:1"],
        ["--once", "--seconds", "1"], ["F", "--out", "G"], ["F", "--once"], ["--period", "0"],
    ],
)  # fmt: skip
def test_wrong_usage(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, ["kernel", *arguments]).exit_code == 2


def test_frames_have_their_columns_even_when_empty() -> None:
    empty = samples_of([Sample(time=START)])
    result = kernel(empty)
    assert result.sockets.schema["full"] == pl.Int64
    assert result.depths.is_empty()
    json.dumps(result.to_dict(), default=str)
