"""The contents of Sojourn's include files, for a configuration that is checked away from its own machine."""

from __future__ import annotations

import os
from pathlib import Path, PurePath

from sojourn.doctor.nginx_headers import FAMILIES, include_lines, include_name
from sojourn.nginx.log_format import ESSENTIAL, USEFUL
from sojourn.nginx.syntax import Directive, parsed

_KEYS = ",".join(f'"{key}":"{variable}"' for key, variable in {**ESSENTIAL, **USEFUL}.items())
# The lines that the checks need; a test compares them with the files.
BUILTIN_INCLUDES = {
    **{include_name(family): "\n".join(include_lines(family)) for family in FAMILIES},
    "sojourn.conf": """
        map "" $sojourn_route { default $upstream_http_x_route; }
        map $sojourn_trusted $sojourn_stamp_sent { default t=$sojourn_proxy_start; }
    """
    f"log_format sojourn escape=json '{{{_KEYS}}}';",
}


def with_builtin_includes(root: Directive, path: Path) -> None:
    """Replace includes of missing Sojourn files by their contents.

    Args:
        root: the configuration; changed in place.
        path: its file; includes are relative to its folder.
    """
    for block in (root, *_blocks(root)):
        directives: list[Directive] = []
        for each in block.block:
            text = BUILTIN_INCLUDES.get(PurePath(each.args[0]).name) if each.name == "include" and each.args else None
            if text is None:
                directives.append(each)
                continue
            for included in parsed(text, os.path.join(os.path.dirname(os.path.abspath(path)), each.args[0])).block:
                included.via = each
                directives.append(included)
        block.block[:] = directives


def _blocks(root: Directive) -> list[Directive]:
    return [inner for each in root.block if each.block for inner in (each, *_blocks(each))]
