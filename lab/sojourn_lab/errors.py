"""Errors of the lab that are meant for people."""

from __future__ import annotations


class LabError(Exception):
    """Something the person at the keyboard can act on; commands print its message and no traceback."""


class ScenarioError(LabError):
    """A scenario that cannot be found or does not say what it should."""
