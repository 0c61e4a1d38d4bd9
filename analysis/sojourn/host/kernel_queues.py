"""One sample: sockets, handshakes under way, counters, settings, and the answers of application servers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from sojourn.host.counters import counters, settings
from sojourn.host.sample import Backlogs, Listener, Raindrops, Sample, WorkerQueue
from sojourn.host.servers.asker import BUDGET, Asker
from sojourn.host.servers.kinds import Server, server_of
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
from sojourn.host.unix_diag import listening_unix_sockets, listening_unix_sockets_of_ss, unix_address
from sojourn.model.errors import KernelUnavailableError, SojournError
from sojourn.model.formatting import address_and_port


class KernelProbe:
    """A probe that samples the same sockets repeatedly and recognises each.

    Args:
        ports: name -> port of the TCP sockets to sample; None: none if ``unix`` is given, otherwise all that listen.
        unix: name -> path, or ``@name``, of the Unix sockets; None: none if ``ports`` is given, otherwise all.
        backlogs: port or path -> requested backlog, where known.
        raindrops: addresses of raindrops endpoints, the same as ``unicorn=ADDRESS`` in ``servers``.
        servers: ``KIND=ADDRESS`` of application servers to query.
        budget: seconds of a sample that they may take together.

    Raises:
        SojournError: the address of a server is invalid, or given twice.
    """

    def __init__(
        self,
        ports: Mapping[str, int] | None = None,
        *,
        unix: Mapping[str, str] | None = None,
        backlogs: Backlogs | None = None,
        raindrops: Sequence[str] = (),
        servers: Sequence[str] = (),
        budget: float = BUDGET,
    ) -> None:
        paths = None if unix is None else {name: unix_address(path) for name, path in unix.items()}
        everything = ports is None and paths is None
        # What is not selected at all is not read.
        self._tcp: _Selection | None = _Selection(ports) if everything or ports is not None else None
        self._unix: _Selection | None = _Selection(paths) if everything or paths is not None else None
        self._backlogs = {
            unix_address(where) if isinstance(where, str) else where: backlog
            for where, backlog in (backlogs or {}).items()
        }
        self._budget = budget
        self._askers: dict[str, Asker] = {}
        for server in (*(Server("unicorn", url) for url in raindrops), *map(server_of, servers)):
            if server.address.redacted in self._askers:
                raise SojournError(f"{server.address.redacted}: this server is given twice")
            self._askers[server.address.redacted] = Asker(server)
        self._numbers: dict[Local, dict[int, int]] = {}
        self._settings: dict[str, int] = {}

    def sample(self) -> Sample:
        """Return a sample. ``unavailable`` names what cannot be read; the rest is sampled all the same."""
        unavailable: dict[str, str] = {}
        now = round(time.time(), 6)
        sockets, handshaking = self._listening(unavailable)
        sockets = [*sockets, *self._listening_unix(unavailable)]
        counted = _available("counters", counters, unavailable)
        in_force = _available("settings", settings, unavailable)
        changed = in_force if in_force != self._settings else {}
        self._settings = in_force or self._settings
        raindrops, servers = self._answers()
        return Sample(
            time=now,
            sockets=self._listeners(sockets, handshaking),
            counters=counted,
            settings=changed,
            raindrops=raindrops,
            servers=servers,
            unavailable=unavailable,
        )

    def forget_settings(self) -> None:
        """Write the settings again in the next sample."""
        self._settings = {}

    def _listening(self, unavailable: dict[str, str]) -> tuple[list[ListeningSocket], dict[Local, int] | None]:
        """Return TCP sockets, and handshakes under way by listening address; None where those cannot be read."""
        if self._tcp is None:
            return [], None
        sockets = _by_netlink_or_ss(
            listening_sockets, lambda: listening_sockets_of_ss(ss_output("-Htln")), "sockets", unavailable
        )
        if "sockets" in unavailable:
            return [], None
        sockets = [each for each in sockets if self._tcp.selects(each.port)]
        try:
            by_netlink = "netlink" not in unavailable
            counts = syn_recv_counts() if by_netlink else syn_recv_counts_of_ss(ss_output("-Htn", "state", "syn-recv"))
        except KernelUnavailableError as error:
            unavailable["syn_recv"] = str(error)
            return sockets, None
        return sockets, handshakes(sockets, counts)

    def _listening_unix(self, unavailable: dict[str, str]) -> list[ListeningSocket]:
        if self._unix is None:
            return []
        sockets = _by_netlink_or_ss(
            listening_unix_sockets,
            lambda: listening_unix_sockets_of_ss(ss_output("-Hxln")),
            "unix_sockets",
            unavailable,
        )
        return [each for each in sockets if self._unix.selects(each.address)]

    def _listeners(self, sockets: list[ListeningSocket], handshaking: dict[Local, int] | None) -> list[Listener]:
        present: dict[Local, list[int]] = {}
        for each in sockets:
            present.setdefault((each.address, each.port), []).append(each.cookie)
        # Sockets that share address and port are numbered; one keeps its number as long as it is there.
        numbers = {local: _numbered(self._numbers.get(local, {}), cookies) for local, cookies in present.items()}
        self._numbers = numbers
        # The kernel's numbers of sockets do not order them by age. Unix sockets have port 0: they are the last.
        sockets = sorted(
            sockets, key=lambda each: (each.port == 0, each.port, each.address, numbers[each[:2]][each.cookie])
        )
        return [
            self._listener(name, each, numbers[each.address, each.port][each.cookie], handshaking)
            for each in sockets
            for name in self._names(each)
        ]

    def _names(self, each: ListeningSocket) -> Sequence[str]:
        if each.port:
            usual = address_and_port(each.address, each.port)
            return [usual] if self._tcp is None else self._tcp.names(each.port, usual)
        return [each.address] if self._unix is None else self._unix.names(each.address, each.address)

    def _listener(
        self, name: str, each: ListeningSocket, number: int, handshaking: dict[Local, int] | None
    ) -> Listener:
        return Listener(
            name=f"{name} #{number}" if number > 1 else name,
            address=each.address,
            port=each.port,
            depth=each.depth,
            limit=each.limit,
            syn_recv=handshaking[each.address, each.port] if handshaking is not None and each.port else None,
            backlog_requested=self._backlogs.get(each.port or each.address),
        )

    def _answers(self) -> tuple[dict[str, Raindrops | str], dict[str, WorkerQueue]]:
        """Return the answers of raindrops endpoints and of other servers: all are queried at once."""
        for asker in self._askers.values():
            asker.begin()
        until = time.monotonic() + self._budget
        raindrops: dict[str, Raindrops | str] = {}
        servers: dict[str, WorkerQueue] = {}
        for url, asker in self._askers.items():
            answer = asker.sample(max(until - time.monotonic(), 0.0))
            if isinstance(answer, WorkerQueue):
                servers[url] = answer
            elif asker.server.name == "unicorn":
                raindrops[url] = answer
            else:
                servers[url] = WorkerQueue(kind=asker.server.name, reason=str(answer))
        return raindrops, servers


class _Selection:
    """Sockets by their key, a port or a path; None: all of them."""

    def __init__(self, keys: Mapping[str, int] | Mapping[str, str] | None) -> None:
        self._names: dict[int | str, list[str]] | None = None
        if keys is not None:
            self._names = {}
            for name, key in keys.items():
                self._names.setdefault(key, []).append(name)

    def selects(self, key: int | str) -> bool:
        return self._names is None or key in self._names

    def names(self, key: int | str, usual: str) -> list[str]:
        return [usual] if self._names is None else self._names[key]


def _available(name: str, values: Callable[[], dict[str, int]], unavailable: dict[str, str]) -> dict[str, int]:
    """Return values of the kernel; none where it does not have them, with the reason in ``unavailable``."""
    try:
        return values()
    except KernelUnavailableError as error:
        unavailable[name] = str(error)
        return {}


def _by_netlink_or_ss(
    by_netlink: Callable[[], list[ListeningSocket]],
    by_ss: Callable[[], list[ListeningSocket]],
    name: str,
    unavailable: dict[str, str],
) -> list[ListeningSocket]:
    """Return listening sockets; none where neither netlink nor ss has them."""
    try:
        return by_netlink()
    except KernelUnavailableError as error:
        try:
            sockets = by_ss()
        except KernelUnavailableError as second:
            unavailable[name] = f"{error}; {second}"
            return []
        unavailable.setdefault("netlink", f"{error}; ss was read instead")
        return sockets


def _numbered(before: dict[int, int], cookies: list[int]) -> dict[int, int]:
    numbers = {cookie: before[cookie] for cookie in cookies if cookie in before}
    free = (number for number in range(1, len(cookies) + len(numbers) + 1) if number not in numbers.values())
    # ss prints no cookies: all are 0, and the sockets cannot be distinguished.
    return numbers | {cookie: next(free) for cookie in dict.fromkeys(cookies) if cookie not in numbers}
