"""The result of a command as the answer of a tool: its JSON, with long lists shortened, or the sentence of an error."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from typing import Any

from sojourn.mcp.processes import Finished
from sojourn.model.errors import SojournError
from sojourn.model.formatting import counted, printable

ROWS = 20
SHORTENED = "shortened"
_USAGE = ("Usage: ", "Try ")
_PREFIXES = ("sojourn: ", "Error: ")


def result_of(finished: Finished) -> dict[str, Any]:
    """Return the JSON of a command. A refusal or a failed check with exit code 1 has one, too.

    Raises:
        SojournError: there is none; the text is the sentence of the command.
    """
    try:
        values = json.loads(finished.output) if finished.code in {0, 1} else None
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise SojournError(messages_of(finished) or _end_of(finished.code))
    return values


def messages_of(finished: Finished) -> str:
    """Return what the command wrote to standard error, without its usage; a line each."""
    lines = [line for line in finished.messages.splitlines() if line and not line.startswith(_USAGE)]
    for prefix in _PREFIXES:
        lines = [line.removeprefix(prefix) for line in lines]
    return "\n".join(printable(line, 1_000) for line in lines)


def _end_of(code: int) -> str:
    if code >= 0:
        return f"the command ended with exit code {code} and printed no result"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"the command was ended by {name}; if that is not its time limit, the machine may lack memory"


def shortened(values: Mapping[str, Any], rows: int) -> dict[str, Any]:
    """Return a result whose lists have at most ``rows`` entries.

    If a list was longer, the result has a member ``shortened``: path of the list, with ``[]`` for the entries of lists
    around it -> its number of entries; of several lists, that of the longest.
    """
    lengths: dict[str, int] = {}
    result: dict[str, Any] = {name: _shortened(value, rows, name, lengths) for name, value in values.items()}
    return {SHORTENED: lengths, **result} if lengths else result


def _shortened(value: Any, rows: int, path: str, lengths: dict[str, int]) -> Any:
    if isinstance(value, dict):
        return {name: _shortened(inner, rows, f"{path}.{name}", lengths) for name, inner in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) > rows:
        lengths[path] = max(lengths.get(path, 0), len(value))
    return [_shortened(inner, rows, f"{path}[]", lengths) for inner in value[:rows]]


def text_of(values: Mapping[str, Any], most: int) -> str:
    """Return a result as JSON in ASCII: a name from a log cannot write to a terminal.

    Raises:
        SojournError: it has more than ``most`` bytes.
    """
    text = json.dumps(values, separators=(",", ":"))
    if len(text) > most:
        raise SojournError(
            f"the answer has {counted(len(text), 'byte')}, more than {most:,} (--max-bytes): take fewer rows, or "
            "narrow the requests by time or by a condition"
        )
    return text
