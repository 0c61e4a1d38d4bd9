"""Filters: they compile, and they match the packets they say, tried on packets made by scapy."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from sojourn.host.filters import Endpoint, capture_filter, frame_selector
from sojourn.host.nginx_ports import endpoints
from sojourn.host.tcpdump import Recording, Ring, Summary, counts_in, shell_line
from sojourn.model.errors import CaptureError

BACKENDS = [Endpoint("10.0.0.1", 8000), Endpoint("::1", 8000), Endpoint("10.0.0.2", 80)]
needs_tcpdump = pytest.mark.skipif(shutil.which("tcpdump") is None, reason="tcpdump is missing")


@pytest.fixture(scope="module")
def scapy() -> Any:
    return pytest.importorskip("scapy.all")


def _ether(scapy: Any) -> Any:
    """With addresses: for one that is missing scapy asks the network, and waits."""
    return scapy.Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")


def packets(scapy: Any) -> dict[str, tuple[Any, bool]]:
    """Name -> (frame, whether the ports 80 and 443 and the backends want it)."""
    ether, ip, ip6, tcp = _ether(scapy), scapy.IP, scapy.IPv6, scapy.TCP
    near, far = ip(src="192.0.2.1", dst="10.9.9.9"), ip(src="10.9.9.9", dst="192.0.2.1")
    return {
        "to port": (ether / near / tcp(sport=40000, dport=80), True),
        "from port": (ether / far / tcp(sport=443, dport=40000), True),
        "to backend": (ether / ip(src="10.9.9.9", dst="10.0.0.1") / tcp(sport=1, dport=8000) / b"GET", True),
        "from backend": (ether / ip(src="10.0.0.1", dst="10.9.9.9") / tcp(sport=8000, dport=1), True),
        "over IPv6": (ether / ip6(src="::1", dst="::1") / tcp(sport=1, dport=8000), True),
        "a port over IPv6": (ether / ip6(src="2001:db8::1", dst="2001:db8::2") / tcp(sport=80, dport=9), True),
        "with options": (ether / ip(dst="10.0.0.1", options=[scapy.IPOption(b"\x94\x04\0\0")]) / tcp(dport=80), True),
        "other host": (ether / ip(src="10.9.9.9", dst="10.0.0.7") / tcp(sport=1, dport=8000), False),
        "other port": (ether / ip(src="10.9.9.9", dst="10.0.0.1") / tcp(sport=1, dport=8001), False),
        "host behind another's port": (ether / ip(src="10.0.0.1", dst="9.9.9.9") / tcp(sport=1, dport=8000), True),
        "UDP": (ether / near / scapy.UDP(sport=1, dport=443), False),
        "later fragment": (ether / ip(src="1.1.1.1", dst="10.0.0.1", frag=9, proto=6) / (b"\0\x50\0\x50" * 9), False),
        "ARP": (ether / scapy.ARP(), False),
        "short": (scapy.Raw(b"\0" * 12 + b"\x08\x00\x45"), False),
    }


def matched(scapy: Any, folder: Path, frames: list[Any], expression: str) -> list[bool]:
    """The frames that tcpdump accepts, identified by their instants."""
    path = folder / "made.pcap"
    for number, frame in enumerate(frames):
        frame.time = 1000 + number
    scapy.wrpcap(str(path), frames, linktype=1)
    done = subprocess.run(
        ["tcpdump", "-n", "-tt", "-r", path, expression], capture_output=True, text=True, check=True, timeout=20
    )
    values = {int(line.split(".")[0]) - 1000 for line in done.stdout.splitlines() if line[:1].isdigit()}
    return [number in values for number in range(len(frames))]


@needs_tcpdump
def test_the_filter_takes_what_it_says(scapy: Any, tmp_path: Path) -> None:
    produced = packets(scapy)
    # A backend's address with its port on the other side is of another connection: "host and port" takes it, too.
    result = matched(scapy, tmp_path, [frame for frame, _ in produced.values()], capture_filter([443, 80], BACKENDS))
    assert dict(zip(produced, result, strict=True)) == {name: wanted for name, (_, wanted) in produced.items()}


@needs_tcpdump
def test_with_vlan_it_takes_both_tagged_and_not(scapy: Any, tmp_path: Path) -> None:
    items = [(frame, wanted) for frame, wanted in packets(scapy).values() if scapy.Ether in frame]
    tagged = []
    for frame, _ in items:
        tagged.append(frame.copy())
        tagged[-1][scapy.Ether].remove_payload()
        tagged[-1] = tagged[-1] / scapy.Dot1Q(vlan=7) / frame[scapy.Ether].payload.copy()
    wanted = [each for _, each in items]
    frames = [frame for frame, _ in items] + tagged
    assert matched(scapy, tmp_path, frames, capture_filter([443, 80], BACKENDS, vlan=True)) == wanted + wanted
    assert matched(scapy, tmp_path, frames, capture_filter([443, 80], BACKENDS)) == wanted + [False] * len(items)


def test_without_a_filter_the_same_frames_are_chosen(scapy: Any) -> None:
    wanted = frame_selector([443, 80], BACKENDS)
    for name, (frame, expected) in packets(scapy).items():
        # Here both address and port are of one side.
        assert wanted(bytes(frame)) is (expected and name != "host behind another's port"), name
    tagged = _ether(scapy) / scapy.Dot1Q(vlan=7) / scapy.IP(dst="10.0.0.1") / scapy.TCP(dport=8000)
    assert wanted(bytes(tagged))
    for length in range(len(tagged)):
        assert wanted(bytes(tagged)[:length]) in (True, False)


@needs_tcpdump
@pytest.mark.parametrize("kind", ["EN10MB", "LINUX_SLL", "LINUX_SLL2", "RAW", "NULL"])
def test_filter_compiles_for_every_link_type(kind: str) -> None:
    expressions = [capture_filter([80], BACKENDS), capture_filter([80]), capture_filter([], BACKENDS[:1])]
    for each in (*expressions, *([capture_filter([80], BACKENDS, vlan=True)] if kind == "EN10MB" else [])):
        subprocess.run(["tcpdump", "-y", kind, "-d", each], check=True, capture_output=True, timeout=20)


def test_the_filter_says_each_thing_once() -> None:
    assert capture_filter([443, 80, 80], [Endpoint("10.0.0.2", 80), *BACKENDS, *BACKENDS]) == (
        "tcp and (port 80 or port 443 or (host 10.0.0.1 and port 8000) or (host ::1 and port 8000))"
    )
    assert capture_filter([80]) == "tcp and port 80"
    assert capture_filter([], [Endpoint("fe80::1%eth0", 81)]) == "tcp and host fe80::1 and port 81"
    assert capture_filter([80], vlan=True) == "(tcp and port 80) or (vlan and tcp and port 80)"


@pytest.mark.parametrize(
    ("ports", "hosts", "words"),
    [
        ([], [], "nothing to record"),
        ([0], [], "0 is not a port"),
        ([], [Endpoint("10.0.0.1", 65536)], "65536 is not a port"),
        ([80], [Endpoint("a or port 22", 1)], "is not an address"),
    ],
)
def test_rejects_invalid_filters(ports: list[int], hosts: list[Endpoint], words: str) -> None:
    with pytest.raises(CaptureError, match=words):
        capture_filter(ports, hosts)


def test_endpoints_are_a_host_and_a_port() -> None:
    known = {"app": ["10.0.0.1", "::2"], "::1": ["::1"]}
    assert endpoints("app:80", lambda name: known[name]) == [Endpoint("10.0.0.1", 80), Endpoint("::2", 80)]
    assert endpoints("[::1]:81", lambda name: known[name]) == [Endpoint("::1", 81)]
    for wrong in ("app", "app:", ":80", "app:0", "app:99999", "::1:80", "a b:c"):
        with pytest.raises(CaptureError, match="is not HOST:PORT"):
            endpoints(wrong, lambda _: ["10.0.0.1"])
    with pytest.raises(CaptureError, match="no address is known"):
        endpoints("nowhere.invalid:80", lambda _: [])


def test_the_command_can_be_typed_elsewhere() -> None:
    what = Recording(Path("-x.pcap"), "tcp and (port 80)", ring=Ring(10, 50), user="tcpdump", packets=9)
    line = shell_line(what.command(), 60)
    assert line.startswith(
        "timeout --signal=INT 60 tcpdump -p -n -U -i any -s 1024 --time-stamp-precision=nano -B 16384"
    )
    assert line.endswith("-c 9 -C 50 -W 10 -Z tcpdump -w ./-x.pcap 'tcp and (port 80)'")
    assert [path.name for path in what.files()] == [f"-x.pcap{number}" for number in range(10)]
    assert Ring(11, 1).names(Path("a"))[0] == Path("a00")


def test_what_tcpdump_says_of_its_counts() -> None:
    both = "tcpdump: 1 packet captured, 2 packets received by filter, 3 packets dropped by kernel"
    assert counts_in(both) == {"captured": 1, "received": 2, "dropped": 3}
    assert Summary(**counts_in("7 packets dropped by interface")).interface_dropped == 7
    assert counts_in("tcpdump: listening on any, link-type LINUX_SLL2, snapshot length 1024 bytes") == {}
