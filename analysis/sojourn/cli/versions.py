"""``sojourn --version``: the versions that a bug report needs, in one line."""

from __future__ import annotations

import platform

# What figures and pictures are made by: distribution -> what it is called here. Read from metadata: nothing is loaded.
ENGINES = {"polars": "polars", "duckdb": "duckdb", "numba": "numba", "chdb-core": "chdb", "altair": "altair"}


def versions() -> str:
    """Return ``sojourn 0.1.0 (python 3.11.2, polars 1.34.0, …)``, without packages that are not installed."""
    from importlib import metadata  # noqa: PLC0415 - takes its time to load

    from sojourn.model.version import version  # noqa: PLC0415

    parts = [f"python {platform.python_version()}"]
    for distribution, name in ENGINES.items():
        try:
            parts.append(f"{name} {metadata.version(distribution)}")
        except metadata.PackageNotFoundError:
            continue
    if vega := _vega_lite():
        parts.append(f"vega-lite {vega}")
    return f"sojourn {version()} ({', '.join(parts)})"


def _vega_lite() -> str:
    """Return the version of Vega-Lite that charts are written in; empty where there is none."""
    from sojourn.model.extras import spec_of  # noqa: PLC0415

    spec = spec_of("altair")
    if spec is None or not spec.submodule_search_locations:
        return ""
    import re  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    schema = Path(spec.submodule_search_locations[0], "vegalite")
    # Altair says it in the name of the schema it was made from; importing it would take longer than the rest.
    for file in sorted(schema.glob("v*/schema/__init__.py"), reverse=True):
        match = re.search(r"SCHEMA_VERSION\s*=\s*[\"']v?([\d.]+)", file.read_text(encoding="utf-8"))
        if match:
            return match[1]
    return ""
