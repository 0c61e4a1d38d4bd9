"""What the included files of Sojourn hold, for a configuration that is looked at on another machine than its own."""

from __future__ import annotations

import os
from pathlib import Path, PurePath

from sojourn.doctor.nginx_headers import include_lines
from sojourn.nginx.log_format import ESSENTIAL, USEFUL
from sojourn.nginx.syntax import Directive, parsed

_KEYS = ",".join(f'"{key}":"{variable}"' for key, variable in {**ESSENTIAL, **USEFUL}.items())
# The lines that matter to the checks here; a test holds them against the files themselves.
HOUSE = {
    "sojourn_proxy.conf": "\n".join(include_lines("proxy")),
    "sojourn.conf": """
        map "" $sojourn_route { default $upstream_http_x_route; }
        map $sojourn_inbound $sojourn_stamp_sent { default $sojourn_inbound; }
    """
    f"log_format sojourn escape=json '{{{_KEYS}}}';",
}


def with_house(root: Directive, path: Path) -> None:
    """Put what Sojourn's files hold in place of includes of them that were not there."""
    for block in (root, *_blocks(root)):
        made: list[Directive] = []
        for each in block.block:
            text = HOUSE.get(PurePath(each.args[0]).name) if each.name == "include" and each.args else None
            if text is None:
                made.append(each)
                continue
            for brought in parsed(text, os.path.join(os.path.dirname(os.path.abspath(path)), each.args[0])).block:
                brought.via = each
                made.append(brought)
        block.block[:] = made


def _blocks(root: Directive) -> list[Directive]:
    return [inner for each in root.block if each.block for inner in (each, *_blocks(each))]
