"""One sample of the kernel: sockets, handshakes under way, counters, settings, and raindrops endpoints."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from sojourn.host.counters import counters, settings
from sojourn.host.raindrops import BUDGET, Asker
from sojourn.host.sample import Listener, Raindrops, Sample
from sojourn.host.sock_diag import (
    ListeningSocket,
    Local,
    handshakes,
    listening_sockets,
    listening_sockets_of_ss,
    ss_output,
    syn_recv_counts,
    syn_recv_counts_of_ss,
)
from sojourn.model.errors import KernelUnavailableError
from sojourn.model.formatting import address_and_port


class KernelProbe:
    """A probe that samples the same sockets repeatedly and recognises each.

    Args:
        ports: name -> port of the sockets to sample; None: all that are listening.
        backlogs: port -> requested backlog, where known.
        raindrops: addresses of raindrops endpoints.
        budget: seconds of a sample that they may take together.

    Raises:
        SojournError: the address of an endpoint is invalid.
    """

    def __init__(
        self,
        ports: Mapping[str, int] | None = None,
        *,
        backlogs: Mapping[int, int] | None = None,
        raindrops: Sequence[str] = (),
        budget: float = BUDGET,
    ) -> None:
        self._ports = None if ports is None else dict(ports)
        self._backlogs = dict(backlogs or {})
        self._budget = budget
        self._askers = {url: Asker(url) for url in raindrops}
        self._numbers: dict[Local, dict[int, int]] = {}
        self._settings: dict[str, int] = {}

    def sample(self) -> Sample:
        """Return a sample. ``unavailable`` names what cannot be read; the rest is sampled all the same."""
        unavailable: dict[str, str] = {}
        now = round(time.time(), 6)
        sockets, handshaking = self._listening(unavailable)
        counted: dict[str, int] = {}
        try:
            counted = counters()
        except KernelUnavailableError as error:
            unavailable["counters"] = str(error)
        in_force: dict[str, int] = {}
        try:
            in_force = settings()
        except KernelUnavailableError as error:
            unavailable["settings"] = str(error)
        changed = in_force if in_force != self._settings else {}
        self._settings = in_force or self._settings
        return Sample(
            time=now,
            sockets=self._named(sockets, handshaking),
            counters=counted,
            settings=changed,
            raindrops=self._raindrops(),
            unavailable=unavailable,
        )

    def forget_settings(self) -> None:
        """Write the settings again in the next sample."""
        self._settings = {}

    def _listening(self, unavailable: dict[str, str]) -> tuple[list[ListeningSocket], dict[Local, int] | None]:
        """Return listening sockets, and handshakes under way by listening address; None where those cannot be read."""
        try:
            sockets = listening_sockets()
        except KernelUnavailableError as error:
            try:
                sockets = listening_sockets_of_ss(ss_output("-Htln"))
                unavailable["netlink"] = f"{error}; ss was read instead"
            except KernelUnavailableError as second:
                unavailable["sockets"] = f"{error}; {second}"
                return [], None
        if self._ports is not None:
            ports = set(self._ports.values())
            sockets = [each for each in sockets if each.port in ports]
        try:
            by_netlink = "netlink" not in unavailable
            counts = syn_recv_counts() if by_netlink else syn_recv_counts_of_ss(ss_output("-Htn", "state", "syn-recv"))
        except KernelUnavailableError as error:
            unavailable["syn_recv"] = str(error)
            return sockets, None
        return sockets, handshakes(sockets, counts)

    def _named(self, sockets: list[ListeningSocket], handshaking: dict[Local, int] | None) -> list[Listener]:
        names: dict[int, list[str]] = {}
        for name, port in (self._ports or {}).items():
            names.setdefault(port, []).append(name)
        present: dict[Local, list[int]] = {}
        for each in sockets:
            present.setdefault((each.address, each.port), []).append(each.cookie)
        # Sockets that share address and port are numbered; one keeps its number as long as it is there.
        numbers = {local: _numbered(self._numbers.get(local, {}), cookies) for local, cookies in present.items()}
        self._numbers = numbers
        # The kernel's numbers of sockets do not order them by age.
        sockets = sorted(sockets, key=lambda each: (each.port, each.address, numbers[each[:2]][each.cookie]))
        return [
            self._listener(name, each, numbers[each.address, each.port][each.cookie], handshaking)
            for each in sockets
            for name in names.get(each.port, [address_and_port(each.address, each.port)])
        ]

    def _listener(
        self, name: str, each: ListeningSocket, number: int, handshaking: dict[Local, int] | None
    ) -> Listener:
        return Listener(
            name=f"{name} #{number}" if number > 1 else name,
            address=each.address,
            port=each.port,
            depth=each.depth,
            limit=each.limit,
            syn_recv=None if handshaking is None else handshaking[each.address, each.port],
            backlog_requested=self._backlogs.get(each.port),
        )

    def _raindrops(self) -> dict[str, Raindrops | str]:
        until = time.monotonic() + self._budget
        return {url: asker.sample(max(until - time.monotonic(), 0.0)) for url, asker in self._askers.items()}


def _numbered(before: dict[int, int], cookies: list[int]) -> dict[int, int]:
    kept = {cookie: before[cookie] for cookie in cookies if cookie in before}
    free = (number for number in range(1, len(cookies) + len(kept) + 1) if number not in kept.values())
    # ss prints no cookies: all are 0, and the sockets cannot be distinguished.
    return kept | {cookie: next(free) for cookie in dict.fromkeys(cookies) if cookie not in kept}
