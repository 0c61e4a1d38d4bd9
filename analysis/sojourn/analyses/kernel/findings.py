"""Findings about the queues before accept() and before the workers, as sentences with remedies."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from sojourn.analyses.kernel.result import LOOP_FULL, Finding, KernelResult
from sojourn.model.formatting import counted, milliseconds, percent, printable

WEIGHTS = ("lost", "risk", "note")
CURE = (
    "The cure is to take connections sooner: more workers, or less service time. A longer backlog lets bursts through; "
    "under lasting overload it only moves the wait into the queue, where requests outlive their clients' patience."
)
REFUSED_BY_UNIX = (
    " connect() to a full Unix socket waits, or fails at once with EAGAIN if the client does not block: nginx logs "
    '"Resource temporarily unavailable" and answers 502. The kernel does not count these.'
)
FIRST_STEPS = 6
BUSY_SHARE = 0.5  # of the answers with all workers busy, from which on that is a finding of its own


def findings_of(result: KernelResult) -> tuple[Finding, ...]:
    """Return all findings, gravest first."""
    several = (
        *_accept_queues(result), *_workers(result), *_backlogs(result), *_syn_queue(result), *_settings(result),
    )  # fmt: skip
    return tuple(sorted(several, key=lambda each: WEIGHTS.index(each.weight)))


def repeated_syns(linear: int, retries: int) -> list[int]:
    """Return when a client without an answer repeats its SYN, in seconds after the first.

    The first gap is 1 s (RFC 6298, 2.1) and each one doubles the one before; from Linux 6.5 on only after
    ``tcp_syn_linear_timeouts`` repetitions, which come on top of ``tcp_syn_retries``.
    """
    gaps = [1] * linear + [2**number for number in range(retries)]
    return list(accumulate(gaps))


def _accept_queues(result: KernelResult) -> Iterator[Finding]:
    full = result.sockets.filter(result.sockets["full"] > 0)
    overflows = result.overflows
    if overflows:
        sentence = (
            f"The kernel turned away {counted(overflows, 'packet')} because an accept queue was full: SYNs and final "
            "ACKs, each repetition of one client counted again."
        )
        yield Finding("overflowed", "lost", sentence, CURE)
        yield from _steps(result)
    for row in full.iter_rows(named=True):
        socket = printable(row["socket"], 60)
        sentence = (
            f"The accept queue of {socket} was full ({counted(row['limit'] + 1, 'connection')}) in {row['full']:,} of "
            f"{counted(row['samples'], 'sample')} ({percent(row['full_share'])})"
        )
        if row["port"] is None:
            yield Finding("filled", "risk", f"{sentence}.{REFUSED_BY_UNIX}", CURE, row["socket"])
            continue
        if overflows == 0:
            sentence += ", though no packet was turned away between the samples"
        if overflows and row["open_while_full"]:
            sentence += (
                f", with up to {counted(row['open_while_full'], 'handshake')} open meanwhile: among them may be "
                "clients whose final ACK was dropped and that believe they are connected"
            )
        yield Finding(
            "filled", "lost" if overflows else "risk", f"{sentence}.", "" if overflows else CURE, row["socket"]
        )
    if overflows and result.unseen:
        period = "" if result.period is None else f" ({result.period:.2g} s)"
        yield Finding(
            "missed",
            "note",
            f"{result.unseen:,} of the {counted(overflows, 'packet')} met a full queue between two samples that saw "
            f"none: bursts shorter than the period{period}, or a socket that was not watched (the counter is of the "
            "whole network namespace).",
            "Sample more often (--period 0.1), or watch all sockets (no --port).",
        )


def _workers(result: KernelResult) -> Iterator[Finding]:
    for row in result.servers.iter_rows(named=True):
        server, answers = row["server"], counted(row["answers"], "answer")
        label = f"{printable(row['kind'], 20)} at {printable(server, 60)}"
        workers = "" if row["workers"] is None else f"all {counted(row['workers'], 'worker')}"
        if row["saturated"]:
            sentence = (
                f"{label}: {workers} were busy and requests waited for them in {row['saturated']:,} of {answers} "
                f"({percent(row['saturated_share'])}), up to {row['deepest']:,}."
            )
            yield Finding("saturated", "risk", sentence, CURE, server=server)
        elif row["all_busy"] and row["all_busy_share"] >= BUSY_SHARE:
            sentence = (
                f"{label}: {workers} were busy in {row['all_busy']:,} of {answers} "
                f"({percent(row['all_busy_share'])}); the server reports nothing waiting, or does not know it."
            )
            mend = "Requests then wait in the accept queue of its socket: see the table of accept queues."
            yield Finding("workers_busy", "risk", sentence, mend, server=server)
        if row["limit_reached"]:
            yield _limit_reached(row["kind"], label, row["limit_reached"], server)
        if row["event_loop_full_share"]:
            delay = row["event_loop_delay_p99"]
            sentence = (
                f"{label}: the event loop was busy {percent(LOOP_FULL)} of the time or more in "
                f"{percent(row['event_loop_full_share'])} of {answers}"
                + ("." if delay is None else f", and the p99 of its delay was up to {milliseconds(delay)} ms.")
            )
            mend = "Every step of a request waits for the loop: more processes, or less work in one step."
            yield Finding("event_loop", "risk", sentence, mend, server=server)
        if row["unanswered"]:
            yield Finding(
                "unanswered",
                "note",
                f"{label} did not answer in {row['unanswered']:,} of "
                f"{counted(row['answers'] + row['unanswered'], 'sample')}; the last reason: "
                f"{printable(row['reason'] or 'unknown')}.",
                server=server,
            )


def _limit_reached(kind: str, label: str, times: int, server: str) -> Finding:
    if kind == "php-fpm":
        sentence = f"{label} reached pm.max_children {counted(times, 'time')}."
        mend = "Raise pm.max_children if memory and processors allow, or make the scripts faster."
    else:
        sentence = f"{label} saw the backlog of a socket full in {counted(times, 'check')} of its own."
        mend = CURE
    return Finding("limit_reached", "risk", sentence, mend, server=server)


def _steps(result: KernelResult) -> Iterator[Finding]:
    linear, retries = result.settings.get("tcp_syn_linear_timeouts"), result.settings.get("tcp_syn_retries")
    if retries is None:
        return
    steps = repeated_syns(linear or 0, retries)
    first_steps = ", ".join(map(str, steps[:FIRST_STEPS]))
    yield Finding(
        "steps",
        "note",
        "A client whose SYN is turned away gets no answer and repeats it; one with this kernel's settings after "
        f"{first_steps}{' …' if len(steps) > FIRST_STEPS else ''} s"
        + (" (tcp_syn_linear_timeouts; kernels before 6.5 after 1, 3, 7 … s)." if linear else ".")
        + " Response times gather at these steps.",
    )


def _backlogs(result: KernelResult) -> Iterator[Finding]:
    somaxconn = result.settings.get("somaxconn")
    for row in result.sockets.iter_rows(named=True):
        socket, limit, requested = row["socket"], row["limit"], row["asked"]
        if requested is not None and limit < requested:
            sentence = f"{printable(socket, 60)} requested a backlog of {requested:,} and has {limit:,}"
            mend = "Listen again after that: the limit is set when listen() is called, so restart the server."
            if somaxconn is not None and limit == somaxconn:
                sentence += f": net.core.somaxconn is {somaxconn:,} in this network namespace and cut it."
                mend = f"sysctl net.core.somaxconn={requested} in the same namespace (a container has its own). {mend}"
            elif somaxconn is not None and somaxconn >= requested:
                sentence += (
                    f": net.core.somaxconn, now {somaxconn:,}, was lower when it began to listen, or another "
                    "backlog was requested."
                )
                mend = "Restart the server: the limit is set when listen() is called."
            else:
                sentence += "."
                mend = f"sysctl net.core.somaxconn={requested}. {mend}"
            yield Finding("cut", "risk", sentence, mend, socket)
        # Of Unix sockets only those that are used: the many of a system's services request somaxconn.
        elif requested is None and somaxconn is not None and limit == somaxconn and (row["port"] or row["deepest"]):
            yield Finding(
                "probably_cut",
                "note",
                f"The limit of {printable(socket, 60)} is net.core.somaxconn, {somaxconn:,}: probably more was "
                "requested and cut (some programs, those in Go among them, request exactly that).",
                f"Give the requested backlog: --backlog {row['port'] or printable(row['address'], 60)}=N, or --nginx "
                "CONF.",
                socket,
            )


def _syn_queue(result: KernelResult) -> Iterator[Finding]:
    others, full = result.other_drops, result.syn_drops
    if others:
        sentence = f"{counted(others, 'packet more was', 'packets more were')} dropped, not for a full accept queue"
        mend = ""
        if full:
            sentence += f"; {full:,} of them because a SYN queue was full and no cookies were sent"
            mend = (
                "net.ipv4.tcp_syncookies=1 keeps a full SYN queue from dropping clients. The backlog limits the SYN "
                "queue, too; without cookies so does net.ipv4.tcp_max_syn_backlog."
            )
        elif result.settings.get("tcp_syncookies") == 0:
            mend = (
                "Without SYN cookies the last quarter of net.ipv4.tcp_max_syn_backlog is kept for clients that the "
                "kernel knows: others are dropped. net.ipv4.tcp_syncookies=1, or a larger tcp_max_syn_backlog."
            )
        else:
            mend = "Memory, routes and security modules can be the reason; the kernel does not count them separately."
        yield Finding("other_drops", "lost", f"{sentence}.", mend)
    elif full:
        yield Finding("other_drops", "lost", f"{counted(full, 'SYN was', 'SYNs were')} dropped: a SYN queue was full.")
    if result.cookies and result.settings.get("tcp_syncookies") != 2:
        yield Finding(
            "cookies",
            "risk",
            f"A SYN queue was full: {counted(result.cookies, 'handshake was', 'handshakes were')} answered by SYN "
            "cookies. No client is turned away, but the server keeps no state: a final ACK that is lost, or meets a "
            "full accept queue, leaves a client that believes it is connected.",
            "A longer backlog makes the SYN queue longer, too. Many sources that never answer are an attack.",
        )
    deferred = result.increases.get("TCPDeferAcceptDrop")
    if deferred:
        yield Finding(
            "deferred",
            "note",
            f"{counted(deferred, 'bare ACK was', 'bare ACKs were')} held back until data came (TCP_DEFER_ACCEPT): such "
            "connections stay among the handshakes, not in the accept queue, and may meet a full queue later.",
        )


def _settings(result: KernelResult) -> Iterator[Finding]:
    if result.settings.get("tcp_abort_on_overflow") == 1:
        yield Finding(
            "abort_on_overflow",
            "risk",
            "net.ipv4.tcp_abort_on_overflow is 1: a client whose final ACK meets a full accept queue is reset, and "
            "nginx answers 502 at once. SYNs that meet a full queue are still dropped silently, so most clients "
            "wait all the same.",
            "0, the default, lets a handshake outlast a short burst. With 1 clients fail at once instead of waiting.",
        )
    cookies = result.settings.get("tcp_syncookies")
    if cookies == 0:
        yield Finding(
            "cookies_off",
            "lost" if result.syn_drops else "note",
            "SYN cookies are off (net.ipv4.tcp_syncookies is 0): a full SYN queue drops every new client.",
            "net.ipv4.tcp_syncookies=1, the default.",
        )
    elif cookies == 2:
        yield Finding(
            "cookies_always",
            "note",
            "SYN cookies are sent to all clients (net.ipv4.tcp_syncookies is 2, meant for tests): handshakes under way "
            "are invisible, because the kernel keeps no state of them.",
            "net.ipv4.tcp_syncookies=1, the default.",
        )
