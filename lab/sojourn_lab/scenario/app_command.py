"""The user's own app as the server of a topology: its command, and the placeholders that the lab fills."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from string import Formatter

OF_TCP = ("address", "host", "port")
"""Placeholders of the address on the loopback: `host:port`, and its two parts."""
OF_UNIX = ("socket",)
"""The placeholder of the path of the Unix socket, with `unix = true`."""
OF_TOPOLOGY = ("workers", "threads", "backlog")
"""Placeholders of numbers of the topology."""
PLACEHOLDERS = (*OF_TCP, *OF_UNIX, *OF_TOPOLOGY, "name")
"""All placeholders; `name` is that of the backend, such as `backend-1`."""


def placeholders(text: str) -> tuple[list[str], list[str]]:
    """Return the names of the placeholders in a text, and what is wrong with it; `{{` and `}}` are braces."""
    try:
        parts = list(Formatter().parse(text))
    except ValueError as error:
        return [], [f"{error}: write {{{{ and }}}} for braces that are not a placeholder"]
    used = [(name, bool(form or conversion)) for _, name, form, conversion in parts if name is not None]
    wrong = [_unknown(name) for name, formed in used if name not in PLACEHOLDERS or formed]
    if wrong:
        wrong[-1] += f"; there are {', '.join(f'{{{each}}}' for each in PLACEHOLDERS)}; write {{{{ for a brace"
    return [name for name, _ in used], wrong


def _unknown(name: str) -> str:
    near = get_close_matches(name, PLACEHOLDERS, 1)
    return f"unknown placeholder {{{name}}}" + (f", did you mean {{{near[0]}}}?" if near else "")


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with its placeholders replaced by values."""
    return text.format_map(values)


def command_reasons(command: str, env: Mapping[str, str], *, unix: bool) -> Iterator[str]:
    """Yield why a command and its environment cannot be used; nothing if they can."""
    used: set[str] = set()
    wrong = []
    for where, text in (("command", command), *((f"env.{name}", value) for name, value in env.items())):
        names, reasons = placeholders(text)
        used.update(names)
        wrong += [f"`{where}`: {reason}" for reason in reasons]
    try:
        if not shlex.split(command):
            wrong.append("`command` is empty")
    except ValueError as error:
        wrong.append(f"`command`: {error}: close the quotation, or write \\ before the character")
    if wrong:
        yield from wrong
        return
    if unix and not used.intersection(OF_UNIX):
        yield "`command` and `env` lack {socket}: with `unix = true` the app must listen on that path"
    if not unix and not used.intersection(("address", "port")):
        yield "`command` and `env` lack {address} and {port}: the app must listen where nginx sends its requests"
    if not unix and used.intersection(OF_UNIX):
        yield "{socket} needs `unix = true`"


def folder_of(cwd: str | None, beside: Path) -> str:
    """Return the absolute folder of a command: `cwd`, relative to the folder of the scenario's file."""
    return os.path.abspath(beside / (cwd or "."))
