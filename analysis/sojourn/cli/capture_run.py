"""Record packets, and print what was recorded."""

from __future__ import annotations

import json
import shutil
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from sojourn.host.capture_targets import CaptureTargets, capture_targets
from sojourn.host.limits import existing_refused
from sojourn.host.privileges import check, missing_for_capture, tcpdump_path, user_for
from sojourn.host.recorder import Recorder
from sojourn.host.sampler import KernelSampler
from sojourn.host.sniffer import ScapyRecorder
from sojourn.host.tcpdump import Recording, Ring, shell_line
from sojourn.invocation.progress import doing
from sojourn.model.errors import CaptureError
from sojourn.model.formatting import counted, duration, percent, printable
from sojourn.present.signals import signals_received


@dataclass
class Task:
    """A recording: what, by which program (``tcpdump`` or ``scapy``), for how long, and what is recorded beside it."""

    recording: Recording
    targets: CaptureTargets
    sniffer: str
    seconds: float | None
    kernel: Path | None
    force: bool
    quiet: bool
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        nginx: Path | None,
        ports: list[int],
        backends: list[str],
        *,
        out: Path,
        interface: str,
        snaplen: int,
        packets: int | None,
        ring: tuple[int, int] | None,
        only_print: bool,
        sniffer: str | None,
        **options: Any,
    ) -> Task:
        """Resolve the options of the command; a program is chosen where none is named."""
        targets = capture_targets(nginx, ports, backends)
        recording = Recording(
            path=out,
            filter=targets.filter_for(interface),
            interface=interface,
            snaplen=snaplen,
            packets=packets,
            ring=Ring(*ring) if ring else None,
            user=None if only_print else user_for(out.parent),
        )
        program = sniffer or ("tcpdump" if only_print or tcpdump_path() else "scapy")
        return cls(recording, targets, program, **options)


def describe(task: Task, *, as_json: bool) -> None:
    """Print the filter and the command of a recording, and record nothing."""
    recording = task.recording
    if as_json:
        _write_json({"filter": recording.filter, "command": recording.command(), **_of_nginx(task.targets)})
        return
    _say_notes(task.targets.notes)
    typer.echo(recording.filter)
    typer.echo(shell_line(recording.command(), task.seconds))


def record(task: Task, *, as_json: bool) -> None:
    """Record until the end that the task has, or Ctrl-C; print the counts.

    Raises:
        CaptureError: a right or a program is missing, or the recorder failed.
    """
    path, interface = task.recording.path, task.recording.interface
    typed = (shutil.which("sojourn") or "sojourn", *sys.argv[1:])
    check(missing_for_capture(path.parent, interface, sniffer=task.sniffer, command=typed))
    task.notes += task.targets.notes
    if task.sniffer == "scapy":
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


def _recorder(task: Task) -> Recorder | ScapyRecorder:
    what = task.recording
    if task.sniffer == "tcpdump":
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


def _sampled(task: Task, path: Path) -> KernelSampler:
    existing_refused([path], task.force)
    targets = task.targets
    return KernelSampler(path, targets.listening, unix=targets.listening_unix or None, backlogs=targets.backlogs)


def _report(task: Task, recorder: Recorder | ScapyRecorder, lasted: float, *, as_json: bool) -> None:
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
                "sniffer": task.sniffer,
                "command": task.recording.command() if task.sniffer == "tcpdump" else None,
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
