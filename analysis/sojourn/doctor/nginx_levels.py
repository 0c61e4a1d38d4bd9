"""The levels of an nginx configuration (http, server, location, if), and the directives in force at each.

nginx inherits a directive that may be repeated (proxy_set_header, proxy_hide_header, access_log) from the level above
only where a level has none of its own: then all of them, otherwise none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from sojourn.doctor.app_lookup import plain_address
from sojourn.doctor.app_servers import BOUND, AppServer, server_of_protocol
from sojourn.doctor.findings import ADD, REMOVE, REPLACE, Edit
from sojourn.doctor.nginx_headers import (
    GUARDED,
    REQUEST_HEADERS,
    STAMPS,
    RequestHeader,
    header_name,
    setter,
)
from sojourn.doctor.nginx_records import FULL, INCLUDES_FOLDER, RECORDS, Record
from sojourn.model.formatting import printable
from sojourn.nginx.log_format import LogFormat, log_format
from sojourn.nginx.syntax import Directive, Reading

CONDITIONS = ("if", "limit_except")
LEVELS = ("server", "location", *CONDITIONS)
PASSES = ("proxy_pass", "grpc_pass", "uwsgi_pass", "fastcgi_pass", "scgi_pass")
SUBREQUESTS = ("auth_request", "mirror")
INDENT = "    "

Mend = tuple[str, str, str, tuple[Edit, ...]]
"""Fix, place, action and edits of a finding."""


@dataclass(frozen=True, eq=False)
class Level:
    """A block and its enclosing blocks."""

    directive: Directive
    parent: Level | None = None

    def own(self, *names: str) -> list[Directive]:
        """Return the directives of these names at this very level."""
        return [each for each in self.directive.block if each.name in names]

    def holder(self, *names: str) -> Level | None:
        """Return the nearest level that has one of these directives, starting with this one."""
        level: Level | None = self
        while level is not None and not level.own(*names):
            level = level.parent
        return level

    def effective(self, *names: str) -> list[Directive]:
        """Return the directives in force: those of the nearest level that has any."""
        holder = self.holder(*names)
        return holder.own(*names) if holder else []

    def value(self, name: str, default: str = "") -> str:
        """Return the first argument of a directive in force."""
        directives = self.effective(name)
        return directives[-1].args[0] if directives and directives[-1].args else default

    def above(self) -> Iterator[Level]:
        """Yield the levels around this one, innermost first."""
        level = self.parent
        while level is not None:
            yield level
            level = level.parent

    @property
    def title(self) -> str:
        """Its name in messages: ``location /api``, ``server shop.example``, ``http``."""
        if self.directive.name == "server":
            names = [name for each in self.own("server_name") for name in each.args]
            listens = [each.args[0] for each in self.own("listen") if each.args]
            return printable(" ".join(["server", *(names[:1] or listens[:1])]))
        return printable(" ".join([self.directive.name or "http", *self.directive.args]))


@dataclass(frozen=True)
class Pass:
    """A directive that passes requests to an app.

    Attributes:
        level: the location, where headers are set and connections tuned.
        directive: the directive that passes requests, such as ``proxy_pass``.
        block: the block it stands in: the location, or an ``if`` or ``limit_except`` of it, where nginx allows neither.
    """

    level: Level
    directive: Directive
    block: Level

    @property
    def outermost(self) -> Directive:
        """The directive behind which lines of the location may follow: itself, or the block around it."""
        return self.directive if self.block is self.level else self.block.directive

    @property
    def family(self) -> str:
        """The protocol: proxy, grpc, uwsgi, fastcgi or scgi."""
        return self.directive.name.removesuffix("_pass")

    @property
    def setter(self) -> str:
        """The directive that sends the app a header."""
        return setter(self.family)

    @property
    def encrypted(self) -> bool:
        """Whether nginx connects to the app over TLS."""
        return bool(self.directive.args) and self.directive.args[0].startswith(("https://", "grpcs://"))

    @property
    def target(self) -> str:
        """An upstream's name, or an address, without scheme and path."""
        text = self.directive.args[0] if self.directive.args else ""
        if text.startswith("unix:"):
            return text.removeprefix("unix:").replace("//", "", 1)
        rest = text.rpartition("://")[2]
        return rest.removeprefix("unix:") if rest.startswith("unix:") else rest.partition("/")[0]

    def sent(self) -> list[tuple[str, str, Directive]]:
        """Return (name in small letters with dashes, value, directive) of the headers that are sent to the app."""
        return [
            (header_name(each.args[0]), each.args[1], each)
            for each in self.level.effective(self.setter)
            if len(each.args) > 1
        ]

    @property
    def stamped(self) -> bool:
        """Whether a stamp is sent to the app."""
        return any(name in STAMPS and value for name, value, _ in self.sent())


@dataclass
class Conf:
    """A configuration to check.

    Attributes:
        path: the file that was named.
        read: its contents.
        version: of the nginx that is installed here, where it read the file itself.
        somaxconn: the kernel's limit of a listen backlog on the machine the configuration is for; None: not known.
        servers: the servers of apps that are known, by the address that nginx logs.
        probed: each of these servers was sent a request.
        fragment: it has no http block, like a file of conf.d.
    """

    path: Path
    read: Reading
    version: tuple[int, ...] | None = None
    somaxconn: int | None = None
    servers: dict[str, AppServer] = field(default_factory=dict)
    probed: bool = False
    fragment: bool = field(init=False)

    def __post_init__(self) -> None:
        self.fragment = not any(each.name == "http" for each in self.read.root.block)

    @cached_property
    def http(self) -> Level:
        """The http level; of a file without one, the file."""
        blocks = [each for each in self.read.root.block if each.name == "http"]
        if not blocks:
            return Level(self.read.root)
        if len(blocks) > 1:
            blocks[0].block.extend(each for other in blocks[1:] for each in other.block)
        return Level(blocks[0])

    @cached_property
    def levels(self) -> list[Level]:
        """All levels inside http, each after its parent."""
        return list(_inside(self.http))

    @cached_property
    def passes(self) -> list[Pass]:
        """Where requests are handed to an app; without subrequests."""
        return [p for p in self._all_passes if p.level not in self.subrequests]

    @cached_property
    def subrequest_passes(self) -> list[Pass]:
        """The directives that pass subrequests of auth_request and mirror to an app."""
        return [p for p in self._all_passes if p.level in self.subrequests]

    @cached_property
    def _all_passes(self) -> list[Pass]:
        return [
            Pass(_location(level), each, level) for level in self.levels for each in level.own(*PASSES) if each.args
        ]

    @cached_property
    def subrequests(self) -> list[Level]:
        """Locations that auth_request or mirror call."""
        locations = {each.args[0] for each in self.http.directive.all(*SUBREQUESTS) if each.args}
        return [
            level
            for level in self.levels
            if level.directive.name == "location" and level.directive.args and level.directive.args[-1] in locations
        ]

    @cached_property
    def record(self) -> Record | None:
        """The record whose file at http level is included; None without one."""
        defined = {each.args[-1] for each in self.http.directive.all("map") if each.args}
        return next((each for each in RECORDS.values() if f"${each.variable}" in defined), None)

    @property
    def has_includes(self) -> bool:
        """Whether ``sojourn.conf`` or the file of another record is included."""
        return self.record is not None

    @property
    def usable_record(self) -> Record | None:
        """The record whose files a fix can include or name; None where the configuration stamps without any."""
        return self.record or (FULL if self.blank else None)

    @cached_property
    def guarded(self) -> tuple[RequestHeader, ...]:
        """The headers whose values of a client must not reach an app; by ``$sojourn_trace``, the trace context too."""
        maps = [each for each in self.http.own("map") if each.args[-1:] == ["$sojourn_trace"]]
        values = [entry.args[0] for entry in (maps[-1].block if maps else []) if entry.args]
        lines = [each.args for level in (self.http, *self.levels) for each in level.own("set")]
        values += [args[1] for args in lines if args[:1] == ["$sojourn_trace"] and len(args) > 1]
        return GUARDED if all(value.lower() == "pass" for value in values) else REQUEST_HEADERS

    @property
    def judges(self) -> bool:
        """Whether it lists trusted peers."""
        return any(each.args[-1:] == ["$sojourn_trusted"] for each in self.http.own("geo"))

    @cached_property
    def _settings(self) -> Directive | None:
        """A directive of the file at http level; None where none is included."""
        name = [f"${(self.record or FULL).variable}"]
        return next((each for each in self.http.own("map") if each.args[-1:] == name), None)

    def behind_settings(self, text: str) -> Edit:
        """Return the edit that adds lines behind the include at http level, or at the beginning of http."""
        return at_top(self.http, text) if self._settings is None else after(self._settings, text)

    @property
    def _include_file(self) -> str | None:
        """The path of the file at http level; None where none is included."""
        return None if self._settings is None else self._settings.place.file

    @cached_property
    def folder(self) -> str:
        """The folder of the include files, as an include names it."""
        if self._include_file is None:
            return INCLUDES_FOLDER
        folder = os.path.dirname(self._include_file)
        inside = os.path.relpath(folder, os.path.dirname(os.path.abspath(self.path)))
        return folder if inside.startswith("..") else inside

    def include_line(self, family: str) -> str | None:
        """Return the include for the locations of a family; None where it cannot be used.

        A configuration that stamps without Sojourn's files has none of their variables, and the folder of an earlier
        version may lack the file.
        """
        record, main = self.usable_record, self._include_file
        if record is None:
            return None
        name = record.include_name(family)
        if main is not None and os.path.exists(main) and not os.path.exists(os.path.join(os.path.dirname(main), name)):
            return None
        return record.include_line(family, self.folder)

    @cached_property
    def upstreams(self) -> dict[str, Directive]:
        """Upstream blocks by name."""
        return {each.args[0]: each for each in self.http.own("upstream") if each.args}

    def addresses(self, handover: Pass) -> list[str]:
        """Return the addresses that a pass sends requests to, as nginx logs them."""
        upstream = self.upstreams.get(handover.target)
        if upstream is None:
            return [plain_address(handover.target, 443 if handover.encrypted else 80)]
        return list(dict.fromkeys(plain_address(each.args[0]) for each in upstream.all("server") if each.args))

    def servers_of(self, handover: Pass) -> dict[str, AppServer]:
        """Return the server at each address of a pass, by its protocol if nothing else is known."""
        by_protocol = server_of_protocol(handover.family)
        return {address: self.servers.get(address, by_protocol) for address in self.addresses(handover)}

    def server_of(self, handover: Pass) -> AppServer:
        """Return the server of a pass: if several differ, one that binds connections, or an unknown one."""
        servers = list(self.servers_of(handover).values())
        if len(set(servers)) == 1:
            return servers[0]
        languages = {each.language for each in servers}
        bound = next((each for each in servers if each.connections == BOUND), AppServer())
        return replace(bound, language=languages.pop() if len(languages) == 1 else "")

    @cached_property
    def log_formats(self) -> dict[str, LogFormat]:
        """Log formats by name."""
        return {each.args[0]: log_format(each) for each in self.http.own("log_format") if each.args}

    @cached_property
    def usable_formats(self) -> list[LogFormat]:
        """The formats that `split` can use, of those that an ``access_log`` names."""
        words = [word for each in self.http.directive.all("access_log") for word in each.args[1:]]
        return [fmt for name, fmt in self.log_formats.items() if fmt.meant and name in words]

    @property
    def blank(self) -> bool:
        """Whether it has neither lines of Sojourn nor a stamp or a log of its own that `split` can use."""
        stamped = any(name in STAMPS for p in self._all_passes for name, _, _ in p.sent())
        return not self.has_includes and not stamped and not self.usable_formats


def _location(level: Level) -> Level:
    """Return the level, or the location around it if it is a condition in one."""
    while level.directive.name in CONDITIONS and level.parent is not None:
        level = level.parent
    return level


def _inside(level: Level) -> Iterator[Level]:
    outermost = level.parent is None
    for each in level.directive.block:
        if each.name in LEVELS and (each.name != "server" or outermost):  # a server of an upstream is an address
            inner = Level(each, level)
            yield inner
            yield from _inside(inner)


def place_of(directive: Directive, level: Level | None = None) -> str:
    """Return the place in messages: ``file:line, inside location /``."""
    inside = f", inside {level.title}" if level else ""
    return f"{printable(directive.where, 300)}{inside}"


def anchor(directive: Directive) -> Directive:
    """Return the directive in the block's own file: itself, or the include that brought it."""
    return directive.via or directive


def after(directive: Directive, text: str) -> Edit:
    """Return the edit that adds lines behind a directive, with its indentation."""
    place = anchor(directive).place
    at = max(place.end, anchor(directive).close)
    lines = "".join(f"\n{place.indent}{line}" if line else "\n" for line in text.splitlines())
    return Edit(place.file, at, at, lines)


def at_top(level: Level, text: str) -> Edit:
    """Return the edit that adds lines at the beginning of a block."""
    place = level.directive.place
    indent = place.indent + INDENT if level.directive.name else ""
    lines = "".join(f"\n{indent}{line}" if line else "\n" for line in text.splitlines())
    return Edit(place.file, place.end, place.end, lines)


def instead_of(directive: Directive, text: str) -> Edit:
    """Return the edit that replaces a directive and its block by lines."""
    place = directive.place
    lines = f"\n{place.indent}".join(text.splitlines())
    return Edit(place.file, place.begin, max(place.end, directive.close), lines)


def without(directive: Directive) -> Edit:
    """Return the edit that removes a directive."""
    return instead_of(directive, "")


def replacing(directive: Directive, text: str, level: Level | None = None) -> Mend:
    """Return how to mend a finding: replace a directive of a level by lines."""
    return text, place_of(directive, level), REPLACE, (instead_of(directive, text),)


def adding(directive: Directive, text: str, level: Level | None = None) -> Mend:
    """Return how to mend a finding: add lines behind a directive of a level."""
    return text, place_of(directive, level), ADD, (after(directive, text),)


def removing(directive: Directive, level: Level | None = None) -> Mend:
    """Return how to mend a finding: remove a directive of a level."""
    return written(directive), place_of(directive, level), REMOVE, (without(directive),)


def written(directive: Directive) -> str:
    """Return the text of a directive without a block, as its file has it."""
    if directive.source:
        return directive.source
    return " ".join([directive.name, *(word(each) for each in directive.args)]) + ";"


def word(text: str) -> str:
    """Return one argument of a directive, in quotes where it needs them."""
    plain = text and not any(c in text for c in " \t\n;{}\"'#\\")
    return text if plain else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
