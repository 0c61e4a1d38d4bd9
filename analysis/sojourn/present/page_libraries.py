"""The script with Vega, Vega-Lite and Vega-Embed of a page, kept between runs: vl-convert bundles it for seconds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sojourn.present.chart_libraries import vl_convert

END = "\n/* complete */"  # of a file that was written whole


def saved_libraries(version: str) -> str | None:
    """Return the script for a version of Vega-Lite, such as 6.4, from a file of an earlier run; None if there is none.

    Like machine code of numba, the file lies next to this one, or in the user's cache folder.
    """
    for file in _files(version):
        with suppress(OSError):
            script = file.read_text(encoding="utf-8")
            if script.endswith(END):
                return script.removesuffix(END)
    return None


def save_libraries(version: str, script: str) -> None:
    """Keep the script for later runs; where no file can be written, each of them builds it again."""
    for file in _files(version):
        with suppress(OSError):
            _write(file, script + END)
            return


def built_libraries(version: str) -> str:
    """Return the script for a version of Vega-Lite, built by this process."""
    return str(vl_convert.javascript_bundle(vl_version=version))  # type: ignore[call-arg]


def _files(version: str) -> Iterator[Path]:
    """Return the places of the file, the best first."""
    name = f"vega-lite-{version}.vl-convert-{vl_convert.__version__}.js"  # type: ignore[attr-defined]
    yield Path(__file__).parent / "__pycache__" / name
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):
        yield Path(base) / "sojourn" / name
    else:
        with suppress(RuntimeError):  # no home
            yield Path.home() / ".cache" / "sojourn" / name


def _write(file: Path, script: str) -> None:
    """Write the file whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.{os.urandom(4).hex()}.partial")
    try:
        partial.write_text(script, encoding="utf-8")
        partial.replace(file)
    finally:
        with suppress(OSError):
            partial.unlink()  # does not exist after success
