"""Compile every function that a command may call, and keep the machine code for the commands to come.

    python -m sojourn.cli.compilation [--shared]

Runs commands on example data in two processes: what they compile has the types that the data of users have, too.
``--shared`` also lets users who cannot write to the folders of the package take the machine code from there, as in an
image. ``make setup`` and the build of the images run this once.
"""

from __future__ import annotations

import gzip
import os
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from sojourn.model.compilation import is_compilation_installed, share_compiled
from sojourn.model.errors import SojournError
from sojourn.model.extras import missing_package

# In a wheel the examples lie beside this module, in a checkout where the other documents are.
_PACKAGED = Path(__file__).with_name("examples")
_CHECKOUT = Path(__file__).parents[3] / "docs" / "examples"
EXAMPLES = ("plain.log.gz", "shop-spans.jsonl.gz", "shop.jsonl.gz", "wire.jsonl.gz", "wire.pcap.gz")
NANOSECONDS = 0xA1B23C4D  # magic number of such a capture
CONNECTIONS = 2_000  # of a capture; the reader's first tables hold 512
LARGE = 5 << 20  # bytes; lines of a block of this size are read in compiled code
DISCIPLINES = ("fifo", "lifo", "adaptive_lifo", "codel", "deadline", "sjf")
BALANCERS = ("round_robin", "least_conn", "two_choices", "shared_queue")

Command = tuple[tuple[str, ...], Path | None]
"""Arguments, and the file that is standard input."""


def commands(folder: Path) -> tuple[list[Command], list[Command]]:
    """Return the commands of two processes; together they call every compiled function.

    Args:
        folder: an empty folder for data that are made of the examples.

    Raises:
        SojournError: the examples are not there.
    """
    examples = _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT
    for name in EXAMPLES:
        if not (examples / name).is_file():
            raise SojournError(f"{examples / name}: no such file; the installation of sojourn is not complete")
    plain, wire = str(examples / "plain.log.gz"), str(examples / "wire.pcap.gz")
    shop = (str(examples / "shop.jsonl.gz"), "--spans", str(examples / "shop-spans.jsonl.gz"))
    (folder / "wire.pcapng").write_bytes(pcapng_of(gzip.decompress(Path(wire).read_bytes())))
    (folder / "connections.pcap").write_bytes(connections_capture())
    logged = gzip.decompress((examples / "wire.jsonl.gz").read_bytes())
    (folder / "without_ids.jsonl").write_bytes(logged.replace(b'"request_id"', b'"other_id"'))
    large = {name: folder / name for name in ("shop.jsonl", "plain.log")}
    for name, path in large.items():
        data = gzip.decompress((examples / f"{name}.gz").read_bytes())
        # One line has an escape, as lines have that are not read the short way.
        escaped = data.partition(b"\n")[0].replace(b'"request_id":"', b'"request_id":"\\u0041')
        path.write_bytes(data * (LARGE // len(data) + 1) + escaped + b"\n")
    packets: list[Command] = [
        (("pcap", wire, "--log", str(examples / "wire.jsonl.gz"), "--json"), None),
        (("pcap", str(folder / "wire.pcapng"), "--json"), None),
        (("pcap", wire, "--log", str(folder / "without_ids.jsonl"), "--json"), None),
        (("pcap", str(folder / "connections.pcap"), "--json"), None),
        (("whatif", *shop, "--json"), None),
        *((("whatif", *shop, "--variant", f"balancer={name}", "--json"), None) for name in BALANCERS),
    ]
    queues: list[Command] = [
        (("split", "-", "--json"), large["shop.jsonl"]),
        (("split", "-", "--json"), large["plain.log"]),
        (("blame", *shop, "--json"), None),
        (("infer", plain, "--json"), None),
        *((simulate("--discipline", name), None) for name in DISCIPLINES),
        *((simulate("--backends", "2", "--balancer", name, "--retries", "1"), None) for name in BALANCERS),
    ]
    return packets, queues


def simulate(*options: str) -> tuple[str, ...]:
    """Return the arguments of a short simulation with options."""
    load = ("--arrivals", "poisson:8", "--service", "exponential:0.1", "--requests", "2000", "--timeout", "1")
    return ("simulate", *load, *options, "--json")


def pcapng_of(pcap: bytes) -> bytes:
    """Return a capture in the format pcap (little endian, us or ns) as pcapng."""
    magic, snaplen, network = struct.unpack("<I12xII", pcap[:24])
    per_micro = 1_000 if magic == NANOSECONDS else 1
    blocks = [
        _block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)),
        _block(1, struct.pack("<HHI", network, 0, snaplen)),
    ]
    at = 24
    while at + 16 <= len(pcap):
        seconds, fraction, captured, size = struct.unpack_from("<IIII", pcap, at)
        micros = seconds * 1_000_000 + fraction // per_micro
        head = struct.pack("<IIIII", 0, micros >> 32, micros & 0xFFFFFFFF, captured, size)
        blocks.append(_block(6, head + pcap[at + 16 : at + 16 + captured]))
        at += 16 + captured
    return b"".join(blocks)


def connections_capture() -> bytes:
    """Return a capture in which so many clients open a connection that the tables of the reader grow."""
    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 101)]  # raw IP
    for client in range(CONNECTIONS):
        address = struct.pack(">I", 0x0A000000 + client)
        header = struct.pack(">BBHHHBBH", 0x45, 0, 40, 0, 0, 64, 6, 0) + address + bytes((10, 255, 0, 1))
        segment = struct.pack(">HHIIBBHHH", 40_000, 80, 1, 0, 0x50, 0x02, 65_535, 0, 0)  # SYN
        parts.append(struct.pack("<IIII", 1_767_225_600, client, 40, 40) + header + segment)
    return b"".join(parts)


def call_the_rest() -> None:
    """Call the compiled functions that examples of some kilobytes do not reach."""
    import numpy as np  # noqa: PLC0415 - these take their time to load

    from sojourn.analyses.pcap.tracking.flows import compact_heads  # noqa: PLC0415
    from sojourn.analyses.pcap.tracking.states import new_tables  # noqa: PLC0415
    from sojourn.estimation.reconstruction import reconstruct  # noqa: PLC0415

    tables = new_tables()
    compact_heads(tables, np.zeros(len(tables.heads), np.uint8))
    # One worker, 2,000 requests of two routes: some wait.
    rng = np.random.default_rng(1)
    arrivals = np.cumsum(rng.exponential(0.1, 2_000))
    services = rng.exponential(0.07, 2_000)
    departures = np.empty(2_000)
    free = 0.0
    for number, (arrival, service) in enumerate(zip(arrivals, services, strict=True)):
        departures[number] = free = max(arrival, free) + service
    reconstruct(np.floor(departures), departures - arrivals, np.arange(2_000) % 2, workers=1)


def _block(kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    size = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + size + body + size


def run_all(some: Iterable[Command]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Run commands one after the other; yield the arguments and the errors of those that fail."""
    for arguments, file in some:
        standard_input = file.read_bytes() if file else b""
        done = subprocess.run(
            [sys.executable, "-m", "sojourn", "--no-config", *arguments],
            input=standard_input, capture_output=True, check=False, env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )  # fmt: skip
        if done.returncode:
            yield arguments, done.stderr.decode(errors="replace").strip()


def main(options: list[str]) -> int:
    """Compile; return the exit status."""
    if not is_compilation_installed():
        print(f"sojourn: {missing_package('numba', 'compilation')}", file=sys.stderr)  # noqa: T201
        return 1
    if set(options) - {"--shared"}:
        print(__doc__, file=sys.stderr)  # noqa: T201
        return 2
    try:
        with TemporaryDirectory(prefix="sojourn-") as folder, ThreadPoolExecutor(2) as pool:
            ended = pool.map(lambda some: list(run_all(some)), commands(Path(folder)))
            call_the_rest()
            failures = [each for part in ended for each in part]
    except SojournError as error:
        print(f"sojourn: {error}", file=sys.stderr)  # noqa: T201
        return 1
    for arguments, errors in failures:
        print(f"sojourn {' '.join(arguments)}: {errors}", file=sys.stderr)  # noqa: T201
    if "--shared" in options and not failures:
        share_compiled(Path(__file__).parents[1])
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
