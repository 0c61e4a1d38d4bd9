"""What there is to know of the queues before accept(), as sentences, and what mends it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from sojourn.analyses.kernel.result import Finding, KernelResult
from sojourn.model.formatting import counted, percent, printable

WEIGHTS = ("lost", "risk", "note")
CURE = (
    "The cure is to take connections sooner: more workers, or less service time. A longer backlog lets bursts through; "
    "under lasting overload it only moves the wait into the queue, where requests outlive their clients' patience."
)
STEPS_SHOWN = 6


def findings_of(found: KernelResult) -> tuple[Finding, ...]:
    """Every finding there is, the gravest first."""
    several = (
        *_accept_queues(found), *_backlogs(found), *_syn_queue(found), *_settings(found),
    )  # fmt: skip
    return tuple(sorted(several, key=lambda each: WEIGHTS.index(each.weight)))


def repeated_syns(linear: int, retries: int) -> list[int]:
    """When a client that gets no answer repeats its SYN: seconds after the first.

    The first gap is 1 s (RFC 6298, 2.1) and each one doubles the one before; from Linux 6.5 on only after
    ``tcp_syn_linear_timeouts`` repetitions, which come on top of ``tcp_syn_retries``.
    """
    gaps = [1] * linear + [2**number for number in range(retries)]
    return list(accumulate(gaps))


def _accept_queues(found: KernelResult) -> Iterator[Finding]:
    full = found.sockets.filter(found.sockets["full"] > 0)
    overflows = found.overflows
    if overflows:
        sentence = (
            f"The kernel turned away {counted(overflows, 'packet')} because an accept queue was full: SYNs and final "
            "ACKs, each repetition of one client counted again."
        )
        yield Finding("overflowed", "lost", sentence, CURE)
        yield from _steps(found)
    for row in full.iter_rows(named=True):
        socket = printable(row["socket"], 60)
        sentence = (
            f"The accept queue of {socket} was full ({counted(row['limit'] + 1, 'connection')}) in {row['full']:,} of "
            f"{counted(row['samples'], 'sample')} ({percent(row['full_share'])})"
        )
        if overflows == 0:
            sentence += ", though nobody was turned away between the samples"
        if overflows and row["open_while_full"]:
            sentence += (
                f", with up to {counted(row['open_while_full'], 'handshake')} open meanwhile: among them may be "
                "clients whose final ACK was dropped and who think themselves connected"
            )
        yield Finding(
            "filled", "lost" if overflows else "risk", f"{sentence}.", "" if overflows else CURE, row["socket"]
        )
    if overflows and found.unseen:
        period = "" if found.period is None else f" ({found.period:.2g} s)"
        yield Finding(
            "missed",
            "note",
            f"{found.unseen:,} of the {counted(overflows, 'packet')} met a full queue between two samples that saw "
            f"none: bursts shorter than the period{period}, or a socket that was not watched (the counter is of the "
            "whole network namespace).",
            "Sample more often (--period 0.1), or watch all sockets (no --port).",
        )


def _steps(found: KernelResult) -> Iterator[Finding]:
    linear, retries = found.settings.get("tcp_syn_linear_timeouts"), found.settings.get("tcp_syn_retries")
    if retries is None:
        return
    steps = repeated_syns(linear or 0, retries)
    shown = ", ".join(f"{step}" for step in steps[:STEPS_SHOWN])
    yield Finding(
        "steps",
        "note",
        "A client whose SYN is turned away hears nothing and repeats it; one with this kernel's settings after "
        f"{shown}{' …' if len(steps) > STEPS_SHOWN else ''} s"
        + (" (tcp_syn_linear_timeouts; kernels before 6.5 after 1, 3, 7 … s)." if linear else ".")
        + " Response times gather at these steps.",
    )


def _backlogs(found: KernelResult) -> Iterator[Finding]:
    somaxconn = found.settings.get("somaxconn")
    for row in found.sockets.iter_rows(named=True):
        socket, limit, asked = row["socket"], row["limit"], row["asked"]
        if asked is not None and limit < asked:
            sentence = f"{printable(socket, 60)} asked for a backlog of {asked:,} and has {limit:,}"
            mend = "Listen again after that: the limit is set when listen() is called, so restart the server."
            if somaxconn is not None and limit == somaxconn:
                sentence += f": net.core.somaxconn is {somaxconn:,} in this network namespace and cut it."
                mend = f"sysctl net.core.somaxconn={asked} in the same namespace (a container has its own). {mend}"
            elif somaxconn is not None and somaxconn >= asked:
                sentence += (
                    f": net.core.somaxconn, now {somaxconn:,}, was lower when it began to listen, or something else "
                    "was asked for."
                )
                mend = "Restart the server: the limit is set when listen() is called."
            else:
                sentence += "."
                mend = f"sysctl net.core.somaxconn={asked}. {mend}"
            yield Finding("cut", "risk", sentence, mend, socket)
        elif asked is None and somaxconn is not None and limit == somaxconn:
            yield Finding(
                "probably_cut",
                "note",
                f"The limit of {printable(socket, 60)} is net.core.somaxconn, {somaxconn:,}: probably more was asked "
                "for and cut (though some, programs in Go among them, ask for just that).",
                f"Say what was asked for: --backlog {row['port']}=N, or --nginx CONF.",
                socket,
            )


def _syn_queue(found: KernelResult) -> Iterator[Finding]:
    others, full = found.other_drops, found.syn_drops
    if others:
        sentence = f"{counted(others, 'packet')} more {_was(others)} dropped, not for a full accept queue"
        mend = ""
        if full:
            sentence += f"; {full:,} of them because a SYN queue was full and no cookies were sent"
            mend = (
                "net.ipv4.tcp_syncookies=1 keeps a full SYN queue from dropping anybody. The backlog limits the SYN "
                "queue, too; without cookies so does net.ipv4.tcp_max_syn_backlog."
            )
        elif found.settings.get("tcp_syncookies") == 0:
            mend = (
                "Without SYN cookies the last quarter of net.ipv4.tcp_max_syn_backlog is kept for clients that the "
                "kernel knows: others are dropped. net.ipv4.tcp_syncookies=1, or a larger tcp_max_syn_backlog."
            )
        else:
            mend = "Memory, routes and security modules can be the reason; the kernel does not count them apart."
        yield Finding("other_drops", "lost", f"{sentence}.", mend)
    elif full:
        yield Finding("other_drops", "lost", f"{counted(full, 'SYN')} {_was(full)} dropped: a SYN queue was full.")
    if found.cookies and found.settings.get("tcp_syncookies") != 2:
        yield Finding(
            "cookies",
            "risk",
            f"A SYN queue was full: {counted(found.cookies, 'handshake')} {_was(found.cookies)} answered by SYN "
            "cookies. That turns nobody away, but the server keeps nothing of them: a final ACK that is lost, or meets "
            "a full accept queue, leaves a client that thinks itself connected.",
            "A longer backlog makes the SYN queue longer, too. Many sources that never answer are an attack.",
        )
    deferred = found.increases.get("TCPDeferAcceptDrop")
    if deferred:
        yield Finding(
            "deferred",
            "note",
            f"{counted(deferred, 'bare ACK')} {_was(deferred)} held back until data came (TCP_DEFER_ACCEPT): such "
            "connections stay among the handshakes, not in the accept queue, and may meet a full queue later.",
        )


def _settings(found: KernelResult) -> Iterator[Finding]:
    if found.settings.get("tcp_abort_on_overflow") == 1:
        yield Finding(
            "abort_on_overflow",
            "risk",
            "net.ipv4.tcp_abort_on_overflow is 1: a client whose final ACK meets a full accept queue is reset, and "
            "nginx answers 502 at once. SYNs that meet a full queue are dropped in silence all the same, so most "
            "clients still wait.",
            "0, the default, lets a handshake outlast a short burst. 1 is for those who would rather fail than wait.",
        )
    cookies = found.settings.get("tcp_syncookies")
    if cookies == 0:
        yield Finding(
            "cookies_off",
            "lost" if found.syn_drops else "note",
            "SYN cookies are off (net.ipv4.tcp_syncookies is 0): a full SYN queue drops whoever comes.",
            "net.ipv4.tcp_syncookies=1, the default.",
        )
    elif cookies == 2:
        yield Finding(
            "cookies_always",
            "note",
            "SYN cookies are sent to everybody (net.ipv4.tcp_syncookies is 2, meant for tests): handshakes under way "
            "cannot be seen, for the kernel keeps nothing of them.",
            "net.ipv4.tcp_syncookies=1, the default.",
        )


def _was(number: int) -> str:
    return "was" if number == 1 else "were"
