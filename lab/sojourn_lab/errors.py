"""Errors of the lab whose messages are for users."""

from __future__ import annotations


class LabError(Exception):
    """An error that the user can act on; commands print its message without a traceback."""


class ScenarioError(LabError):
    """A scenario that does not exist or is not valid."""
