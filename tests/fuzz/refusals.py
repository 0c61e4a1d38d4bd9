"""How a reader may refuse: with an error of its own kind, in words."""

from __future__ import annotations

from collections.abc import Callable


def refusal(read: Callable[[], object], *errors: type[Exception]) -> str | None:
    """What ``read`` says when it refuses with one of ``errors``; None where it does not. Any other error is a fault."""
    try:
        read()
    except errors as error:
        output = str(error)
    else:
        return None
    assert output.strip(), "a refusal without a word"
    return output
