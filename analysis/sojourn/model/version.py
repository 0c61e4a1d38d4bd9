"""The version of this distribution."""

from __future__ import annotations


def version() -> str:
    """Return the version of the installed distribution."""
    from importlib import metadata  # noqa: PLC0415 - takes its time to load

    try:
        return metadata.version("sojourn")
    except metadata.PackageNotFoundError:  # imported from a checkout that was never installed
        return "0+unknown"
