"""The broker behind a collector: takes batches over TCP, keeps them, and acknowledges each after a known time.

It stands where a message broker stands. What it costs a producer is waiting, as an acknowledgement by several replicas
does: no core is busy meanwhile. How long is known beforehand, `--ack` seconds from the whole batch to the answer.

    python collector_broker.py --fd 3 --ack 0.04 --log events.jsonl

A producer sends a length (four bytes, network order) and that many bytes of JSON lines, and waits for one
byte. Its next batch on the same connection waits its turn; batches on other connections do not.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import BinaryIO

LENGTH = struct.Struct("!I")
MOST_BYTES = 16 << 20
ACKNOWLEDGED = b"\x01"


class Broker:
    """Writes what producers send to a file, and acknowledges after `ack` seconds."""

    def __init__(self, log: BinaryIO, ack: float) -> None:
        self._log = log
        self._ack = ack

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one producer until it disconnects."""
        clock = asyncio.get_running_loop().time
        try:
            while True:
                (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
                if length > MOST_BYTES:
                    return
                batch = await reader.readexactly(length)
                due = clock() + self._ack
                self._log.write(batch)
                await asyncio.sleep(max(0.0, due - clock()))
                writer.write(ACKNOWLEDGED)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


async def run(listener: socket.socket, log: Path, ack: float) -> None:
    """Serve until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    with log.open("ab") as out:
        server = await asyncio.start_server(Broker(out, ack).serve, sock=listener)
        await stop.wait()
        server.close()


def main(arguments: list[str]) -> None:
    """Serve with the command line's arguments."""
    parser = argparse.ArgumentParser(description="A broker that acknowledges batches after a known time.")
    parser.add_argument("--fd", type=int, required=True, help="a listening socket, inherited")
    parser.add_argument("--ack", type=float, required=True, help="s from a batch to its acknowledgement")
    parser.add_argument("--log", type=Path, required=True, help="where the batches are kept")
    options = parser.parse_args(arguments)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run(socket.socket(fileno=options.fd), options.log, options.ack))


if __name__ == "__main__":
    main(sys.argv[1:])
