"""The kinds of systems, one function each, in modules by theme; importing this package registers them all."""

from __future__ import annotations

import importlib
import pkgutil

for module in sorted(each.name for each in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{module}")
