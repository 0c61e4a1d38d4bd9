"""The targets by name, and the inputs that are kept for each: small ones, and every input that once failed."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent
FOLDER = HERE / "corpus"
NAMES = tuple(sorted(path.stem for path in (HERE / "targets").glob("*.py") if path.stem != "__init__"))


def target(name: str) -> ModuleType:
    """The module of a target."""
    return importlib.import_module(f"fuzz.targets.{name}")


def inputs(name: str) -> list[Path]:
    """What is kept for a target."""
    return sorted(path for path in (FOLDER / name).glob("*") if path.is_file())
