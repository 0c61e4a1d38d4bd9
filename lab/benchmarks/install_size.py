"""Size of an installation: the files of every distribution that the base or an extra requires, as installed here.

``python -m benchmarks.install_size`` prints them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECTS = {"sojourn": ROOT / "pyproject.toml", "sojourn-lab": ROOT / "lab" / "pyproject.toml"}
OWN = {*PROJECTS, "sojourn-middleware"}  # from the checkout
MB = 1e6


def megabytes(extra: str = "") -> float:
    """Return the size of the base, or of the base with an extra, in MB (million bytes).

    Raises:
        PackageNotFoundError: a package is not installed here.
    """
    return sum(_size(distribution(name)) for name in _with_dependencies(required(extra))) / MB


def required(extra: str = "") -> list[Requirement]:
    """Return what the projects require of others: for the base, and for an extra."""
    requirements: list[Requirement] = []
    own = [Requirement(f"sojourn[{extra}]" if extra else "sojourn")]
    while own:
        each = own.pop()
        project = tomllib.loads(PROJECTS[each.name].read_text(encoding="utf-8"))["project"]
        extras = [text for name in each.extras for text in project["optional-dependencies"][name]]
        for requirement in map(Requirement, (*project["dependencies"], *extras)):
            (own if requirement.name in PROJECTS else requirements).append(requirement)
    return requirements


def _with_dependencies(requirements: Iterable[Requirement]) -> set[str]:
    """Return the names of the distributions, with those that they require."""
    names: set[str] = set()
    waiting = [(each, "") for each in requirements]
    while waiting:
        requirement, of_extra = waiting.pop()
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": of_extra}):
            continue
        if name in OWN or (name in names and not requirement.extras):
            continue
        names.add(name)
        for text in distribution(name).requires or ():
            waiting += [(Requirement(text), extra) for extra in ("", *requirement.extras)]
    return names


def _size(installed: Distribution) -> int:
    """Return the bytes of the files that a distribution's RECORD lists."""
    if installed.files is None:
        raise PackageNotFoundError(installed.name)
    paths = (Path(str(each.locate())) for each in installed.files)
    return sum(path.stat().st_size for path in paths if path.is_file())


if __name__ == "__main__":
    for name in ("", "charts", "compiled", "store", "lab", "capture", "otlp", "mcp", "serve", "all"):
        print(f"{name or 'base':10} {megabytes(name):6.0f} MB")  # noqa: T201
