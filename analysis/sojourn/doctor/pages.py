"""The reference page by section, for ``sojourn doctor --explain CODE``."""

from __future__ import annotations

import re
from pathlib import Path

from sojourn.model.errors import SojournError

# In a wheel the page lies beside this module, in a checkout where the other documents are.
_PACKAGED = Path(__file__).with_name("doctor.md")
_CHECKOUT = Path(__file__).parents[3] / "docs" / "reference" / "doctor.md"
_HEADING = re.compile(r"^### ([a-z][a-z0-9-]*)$", re.M)


def sections() -> dict[str, str]:
    """Return the text of each finding's section, by code, in the order of the page.

    Raises:
        SojournError: the page cannot be read.
    """
    page = _PACKAGED if _PACKAGED.is_file() else _CHECKOUT
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise SojournError(f"the page about the findings cannot be read ({error.strerror})") from None
    parts = _HEADING.split(text)[1:]
    return {
        code: re.split(r"^## ", body, flags=re.M)[0].strip() for code, body in zip(parts[::2], parts[1::2], strict=True)
    }


def explanation(code: str) -> str:
    """Return the section about a finding.

    Raises:
        SojournError: the code is unknown; the message lists the known ones.
    """
    texts = sections()
    if code not in texts:
        raise SojournError(f"unknown finding {code!r}; known are {', '.join(texts)}")
    return f"{code}\n\n{texts[code]}"
