"""The packages that extras bring, and the error of a missing one: it names the command that installs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sojourn.model.errors import SojournError

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

EXTRAS = {
    "PIL": "charts",
    "aiohttp": "lab",
    "altair": "charts",
    "bcrypt": "web",
    "chdb": "store",
    "clickhouse_connect": "store",
    "grpc": "lab",
    "gunicorn": "lab",
    "mcp": "mcp",
    "numba": "compiled",
    "opentelemetry": "otlp",
    "pyarrow": "store",
    "scapy": "capture",
    "sojourn_middleware": "lab",
    "starlette": "serve",
    "uvicorn": "serve",
    "vl_convert": "charts",
    "yaml": "web",
}
"""Module -> the extra that brings it. A module of a name that is not listed belongs to the base."""


def install_command(extra: str = "") -> str:
    """Return the command that installs Sojourn with an extra, such as ``store`` or ``otlp``: no index has it."""
    # First the package that the others require: pip then knows where it is.
    others = " ./lab ./collector/middleware/python" if extra in {"lab", "all"} else ""
    return "pip install " + (f"'.[{extra}]'" if extra else ".") + others + " (in a checkout of Sojourn)"


def missing_package(module: str, what: str = "this command", extra: str | None = None) -> str:
    """Return the sentence that names a missing package and how to install it.

    Args:
        module: the module that could not be imported, or one inside it.
        what: what needs it, such as ``sojourn blame`` or ``--otlp``.
        extra: the extra to name; None: the one that ``EXTRAS`` lists.
    """
    package = module.partition(".")[0]
    extra = EXTRAS.get(package, "") if extra is None else extra
    return f"{what} needs the Python package {package}, which is not installed: {install_command(extra)}"


def spec_of(module: str) -> ModuleSpec | None:
    """Return where a module is installed, without loading it; None: it is not."""
    try:
        return find_spec(module)
    except ModuleNotFoundError:  # a finder of another package may say it this way
        return None


@contextmanager
def needed_for(what: str, extra: str | None = None) -> Iterator[None]:
    """Turn a failed import of a package of an extra into an error that names the command that installs it.

    Args:
        what: what needs the package, as for ``missing_package``.
        extra: the extra to name, also for packages that ``EXTRAS`` does not list; None: the one of the table.

    Raises:
        SojournError: the package is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if extra is None and package not in EXTRAS:
            raise
        raise SojournError(missing_package(package or "a module", what, extra)) from None


class LateModule:
    """A module of an extra that is imported by the first use of one of its names.

    Args:
        module: its name.
        what: what needs it, for the error of a missing package.
    """

    def __init__(self, module: str, what: str) -> None:
        self._module, self._what = module, what

    def __getattr__(self, name: str) -> Any:
        """Return a name of the module.

        Raises:
            SojournError: the package is not installed.
        """
        with needed_for(self._what):
            value = getattr(import_module(self._module), name)
        setattr(self, name, value)
        return value
