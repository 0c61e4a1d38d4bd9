"""Headers that a location sets itself and that the include sets, too: nginx would send both.

For each such header one line remains. ``OURS``: the line of the user is switched off. ``YOURS``: the line of the user
remains, and Sojourn's is left out; for ``X-Request-ID`` the log then has the value of the user's line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sojourn.doctor.nginx_headers import RequestHeader, header_name, setter
from sojourn.doctor.nginx_levels import Level
from sojourn.nginx.syntax import Directive

OURS, YOURS = "ours", "yours"
STAMP, ID, TRACE = "X-Request-Start", "X-Request-ID", "traceparent"
CHOICES = (STAMP, ID, TRACE)
"""The headers of which a user can choose the line that remains."""
_FOLLOWS = {"x-queue-start": STAMP.lower(), "tracestate": TRACE}
_OWN_ID = re.compile(r"\$(?:request_id|\{request_id\})")


@dataclass(frozen=True)
class Duplicate:
    """A header that a line of the configuration sets, and the include sets, too.

    Attributes:
        header: its name, in small letters.
        lines: the lines of the location itself.
        value: what the last of them, or of the inherited lines, sends.
        remains: ``OURS`` or ``YOURS``.
    """

    header: str
    lines: tuple[Directive, ...]
    value: str
    remains: str

    @property
    def choice(self) -> str:
        """The header by whose choice this one is decided."""
        return chosen_by(self.header)


def chosen_by(header: str) -> str:
    """Return the header of ``CHOICES``, in small letters, that decides about a header in small letters."""
    return _FOLLOWS.get(header, header)


def duplicates(
    level: Level, family: str, choices: Mapping[str, str], headers: Sequence[RequestHeader]
) -> Iterator[Duplicate]:
    """Yield the headers that are in force at a level and that the include of a family sets, too.

    Args:
        level: the location.
        family: proxy, grpc, fastcgi, uwsgi or scgi.
        choices: header in small letters -> ``OURS`` or ``YOURS``; a header without an entry has its default: of the
            stamp ours, because only it has the right instant; of the id ours if both lines send ``$request_id``, and
            yours otherwise; of the trace context yours.
        headers: those that the include sets.
    """
    own = level.own(setter(family))
    in_force = [each for each in level.effective(setter(family)) if len(each.args) > 1]
    for header in headers:
        name = header.name.lower()
        lines = [each for each in in_force if header_name(each.args[0]) == name]
        if not lines:
            continue
        value = lines[-1].args[1]
        choice = chosen_by(name)
        if choice not in choices and choice == TRACE:
            remains = YOURS
        elif choice not in choices and choice == ID.lower():
            remains = OURS if _OWN_ID.fullmatch(value) else YOURS
        else:
            remains = choices.get(choice, OURS)
        yield Duplicate(name, tuple(each for each in lines if each in own), value, remains)
