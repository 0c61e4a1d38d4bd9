"""Recordings during a load: the packets of nginx and its app servers, and samples of the kernel's queues."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from sojourn.host.recorder import Recorder
from sojourn.host.sampler import KernelSampler
from sojourn.host.tcpdump import Ring
from sojourn.model.errors import SojournError

from sojourn_lab.errors import LabError
from sojourn_lab.results.run_context import RunContext
from sojourn_lab.results.run_schema import Captured
from sojourn_lab.runtime.runtime import ProcessRuntime, Runtime
from sojourn_lab.scenario.topology import Topology

SNAPLEN = 1024
"""Bytes kept of every packet: the head of a request with its ids, and of an answer."""

MOST_MEGABYTES = 512
"""What the packets of one set of servers may take; beyond, the older half makes room."""


@contextlib.contextmanager
def recorded(context: RunContext, topology: Topology, runtime: Runtime) -> Iterator[None]:
    """Record during the block what the scenario selects: capture.pcap and kernel.jsonl in the run's folder.

    Captures are added to `context.captures`. Raises LabError with the reason if capturing is not possible here.
    """
    scenario, folder = context.scenario, context.folder.partial
    if not isinstance(runtime, ProcessRuntime) or runtime.nginx is None:
        if scenario.capture:
            raise LabError(
                "packets can be captured only if the servers are processes of this machine (--runtime process)"
            )
        yield
        return
    with_port = [each for each in runtime.backends if each.port]
    ports = {"nginx": runtime.nginx.port, **{each.name: each.port for each in with_port}}
    with contextlib.ExitStack() as stack:
        if scenario.capture or topology.namespace is not None:
            backlogs = {each.port: topology.backlog for each in with_port}
            stack.enter_context(_sampled(folder / "kernel.jsonl", ports, scenario.kernel_period, backlogs))
        if scenario.capture:
            # A file for each set of servers: they may be in network namespaces of their own. AppArmor of Debian and
            # Ubuntu lets tcpdump write names that end in .pcap and a digit, and no others.
            number = len(context.captures) + 1
            path = folder / ("capture.pcap" if number == 1 else f"capture-{number}.pcap")
            # Connections behind the app carry the same requests again; only the proxy and its backends count here.
            behind = {each.name: each.port for each in with_port if each.address in runtime.upstreams.all}
            stack.enter_context(_captured(path, {"nginx": ports["nginx"], **behind}, context.captures))
        yield


@contextlib.contextmanager
def _sampled(path: Path, ports: Mapping[str, int], period: float, backlogs: Mapping[int, int]) -> Iterator[None]:
    with KernelSampler(path, ports, period, backlogs=backlogs, keep=True):
        yield


@contextlib.contextmanager
def _captured(path: Path, ports: Mapping[str, int], captures: list[Captured]) -> Iterator[None]:
    try:
        recorder = Recorder(
            path, ports=sorted(set(ports.values())), interface="lo", snaplen=SNAPLEN, ring=Ring(2, MOST_MEGABYTES // 2)
        )
        with recorder:
            yield
    except SojournError as error:
        raise LabError(f"the capture: {error}") from None
    files = recorder.files()
    if len(files) == 1:
        # All there ever was: nothing had to make room.
        files = [files[0].rename(path)]
    summary = recorder.summary
    captures.append(Captured([each.name for each in files], summary.captured, summary.received, summary.dropped))
