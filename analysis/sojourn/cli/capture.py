"""``sojourn capture``: record the packets that pass a proxy.

Measures nothing itself: it writes what ``sojourn pcap`` reads.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from sojourn.host.capture_targets import CaptureTargets, capture_targets
from sojourn.host.limits import existing_refused
from sojourn.host.privileges import check, missing_for_capture, tcpdump_path, user_for
from sojourn.host.recorder import Recorder
from sojourn.host.sniffer import ScapyRecorder
from sojourn.host.tcpdump import Recording, Ring, shell_line
from sojourn.invocation.options import AsJson
from sojourn.invocation.progress import doing
from sojourn.model.errors import CaptureError
from sojourn.model.formatting import counted, duration, percent, printable
from sojourn.present.signals import signals_received


class Sniffer(StrEnum):
    """The program that records the packets."""

    tcpdump = "tcpdump"
    scapy = "scapy"


def capture(
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FILE", help="Output file, ending in .pcap; prefix of the names of a ring."),
    ],
    nginx: Annotated[
        Path | None,
        typer.Option("--nginx", metavar="CONF", help="Ports and backends are those of this nginx configuration."),
    ] = None,
    port: Annotated[
        list[int] | None,
        typer.Option("--port", metavar="P", min=1, max=65535, help="A port, on any address. Repeatable."),
    ] = None,
    backend: Annotated[
        list[str] | None, typer.Option("--backend", metavar="HOST:PORT", help="A backend. Repeatable.")
    ] = None,
    interface: Annotated[
        str, typer.Option("--interface", metavar="NAME", help="Record on this interface only.")
    ] = "any",
    snaplen: Annotated[
        int, typer.Option("--snaplen", metavar="BYTES", min=0, max=262_144, help="Bytes kept of each packet; 0: all.")
    ] = 1024,
    seconds: Annotated[float | None, typer.Option("--seconds", metavar="S", help="End after this time.")] = None,
    packets: Annotated[
        int | None, typer.Option("--packets", metavar="N", min=1, help="End after this many packets.")
    ] = None,
    ring_files: Annotated[
        int | None,
        typer.Option(
            "--ring-files", metavar="N", min=2, max=10_000, help="Number of ring files; the oldest is overwritten."
        ),
    ] = None,
    ring_megabytes: Annotated[
        int | None,
        typer.Option(
            "--ring-megabytes", metavar="M", min=1, max=100_000, help="Size of each ring file, million bytes."
        ),
    ] = None,
    kernel: Annotated[
        Path | None,
        typer.Option("--kernel", metavar="FILE", help="Also sample the listen queues every second to this file."),
    ] = None,
    only_print: Annotated[
        bool, typer.Option("--print", help="Print the filter and the command, for another machine; record nothing.")
    ] = False,
    sniffer: Annotated[
        Sniffer | None,
        typer.Option("--sniffer", help="Record with this program. Default: tcpdump; scapy if tcpdump is missing."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only warnings on stderr.")] = False,
) -> None:
    """Record packets around nginx for sojourn pcap.

    Give --nginx, or --port and --backend. Stop with Ctrl-C: all packets up to then are written.
    """
    if (ring_files is None) != (ring_megabytes is None):
        raise typer.BadParameter("--ring-files and --ring-megabytes go together", param_hint="--ring-files")
    if seconds is not None and not 0 < seconds < 1e7:
        raise typer.BadParameter("give a number of seconds above 0", param_hint="--seconds")
    targets = capture_targets(nginx, port or [], backend or [])
    recording = Recording(
        path=out,
        filter=targets.filter_for(interface),
        interface=interface,
        snaplen=snaplen,
        packets=packets,
        ring=Ring(ring_files, ring_megabytes) if ring_files and ring_megabytes else None,
        user=None if only_print else user_for(out.parent),
    )
    chosen = sniffer or (Sniffer.tcpdump if only_print or tcpdump_path() else Sniffer.scapy)
    if not only_print:
        _record(_Task(recording, targets, chosen, seconds, kernel, force, quiet), as_json=as_json)
        return
    if as_json:
        _write_json({"filter": recording.filter, "command": recording.command(), **_of_nginx(targets)})
        return
    _say_notes(targets.notes)
    typer.echo(recording.filter)
    typer.echo(shell_line(recording.command(), seconds))


@dataclass
class _Task:
    recording: Recording
    targets: CaptureTargets
    sniffer: Sniffer
    seconds: float | None
    kernel: Path | None
    force: bool
    quiet: bool
    notes: list[str] = field(default_factory=list)


def _record(task: _Task, *, as_json: bool) -> None:
    path, interface = task.recording.path, task.recording.interface
    typed = (shutil.which("sojourn") or "sojourn", *sys.argv[1:])
    check(missing_for_capture(path.parent, interface, sniffer=task.sniffer, command=typed))
    task.notes += task.targets.notes
    if task.sniffer is Sniffer.scapy:
        task.notes.append("scapy is slow, some 10 µs for each packet: where processors are busy it drops some.")
    if task.recording.ring and task.force and (old := [each for each in task.recording.files() if each.exists()]):
        task.notes.append(f"Files of an earlier ring stay until this one comes round to them: {len(old)}.")
    if not task.quiet:
        _say_notes(task.notes)
    with ExitStack() as stack:
        interrupted = stack.enter_context(signals_received())
        recorder = _recorder(task)
        stack.enter_context(recorder)
        if task.kernel is not None:
            stack.enter_context(_sampled(task, task.kernel))
        begun = time.monotonic()
        say = stack.enter_context(doing(task.quiet))
        say(f"recording {printable(task.recording.filter, 200)} into {path}; Ctrl-C ends it")
        recorder.wait(task.seconds, interrupted=lambda: bool(interrupted))
        lasted = time.monotonic() - begun
        say("writing what the kernel still holds")
        try:
            recorder.stop()
        except KeyboardInterrupt:
            recorder.stop_now()
    _report(task, recorder, lasted, as_json=as_json)
    if recorder.trouble:
        raise CaptureError(recorder.trouble)


def _recorder(task: _Task) -> Recorder | ScapyRecorder:
    what = task.recording
    if task.sniffer is Sniffer.tcpdump:
        return Recorder.of(what, overwrite=task.force)
    if what.ring:
        raise CaptureError("a ring of files takes tcpdump: apt-get install tcpdump")
    return ScapyRecorder(
        what.path,
        ports=task.targets.ports,
        hosts=task.targets.endpoints,
        filter=what.filter,
        interface=what.interface,
        snaplen=what.snaplen,
        packets=what.packets,
        overwrite=task.force,
    )


def _sampled(task: _Task, path: Path) -> Any:
    from sojourn.host.sampler import KernelSampler  # noqa: PLC0415 - http.client, ssl and msgspec take their time

    existing_refused([path], task.force)
    targets = task.targets
    return KernelSampler(path, targets.listening, unix=targets.listening_unix or None, backlogs=targets.backlogs)


def _report(task: _Task, recorder: Recorder | ScapyRecorder, lasted: float, *, as_json: bool) -> None:
    files, summary = recorder.files(), recorder.summary
    size = sum(path.stat().st_size for path in files)
    if as_json:
        _write_json(
            {
                "captured": summary.captured,
                "received": summary.received,
                "dropped": summary.dropped,
                "interface_dropped": summary.interface_dropped,
                "bytes": size,
                "seconds": round(lasted, 3),
                "files": [str(path) for path in files],
                "kernel": str(task.kernel) if task.kernel else None,
                "filter": task.recording.filter,
                "sniffer": str(task.sniffer),
                "command": task.recording.command() if task.sniffer is Sniffer.tcpdump else None,
                **_of_nginx(task.targets),
                "notes": [*task.notes, *getattr(recorder, "notes", [])],
                "trouble": recorder.trouble,
            }
        )
    elif not task.quiet:
        what = f"{counted(summary.captured, 'packet')}, {size / 1e6:,.1f} MB in {duration(lasted)}"
        where = str(files[0]) if len(files) == 1 else f"{counted(len(files), 'file')} {task.recording.path}*"
        typer.echo(f"{what}: {printable(where, 500) if files else 'no file'}")
    lost = summary.dropped + summary.interface_dropped
    if lost:
        share = lost / max(summary.captured + lost, 1)
        _warn(
            f"{counted(lost, 'packet')} ({percent(share)}) {'was' if lost == 1 else 'were'} dropped before being "
            "recorded: requests and retransmissions may be misread. A smaller --snaplen, a quicker disk or fewer ports "
            "help."
        )
    elif not summary.captured:
        _warn("no packet was seen: is the traffic on these ports, on this interface, in this network namespace?")


def _of_nginx(targets: CaptureTargets) -> dict[str, Any]:
    proxied = targets.proxied.to_dict() if targets.proxied else {"listens": [], "backends": []}
    return {**proxied, "ports": targets.ports, "notes": targets.notes}


def _say_notes(notes: list[str]) -> None:
    for note in notes:
        typer.echo(f"NOTE  {printable(note, 500)}", err=True)


def _warn(text: str) -> None:
    typer.echo(f"WARNING  {text}", err=True)


def _write_json(document: dict[str, Any]) -> None:
    typer.echo(json.dumps(document, indent=2))
