"""``analysis/sojourn/__init__.pyi``: what ``import sojourn`` offers, for type checkers."""

from __future__ import annotations

import sojourn

HEAD = "# Written by python -m sojourn_docs: change the list of questions it follows, and run that again.\n"
HOMES = "def _public_modules() -> dict[str, str]: ..."


def page() -> str:
    """Return the whole file."""
    homes = sojourn._public_modules()
    imports = [f"from {module} import {name} as {name}" for name, module in homes.items()]
    names = "".join(f'    "{name}",\n' for name in sorted([*sojourn.__all__], key=str))
    return "\n".join([HEAD, *sorted(imports), "", "__version__: str", f"__all__ = [\n{names}]\n", HOMES, ""])
