"""Build hook: generate the manual pages of the commands while the wheel is built."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManualPages(BuildHookInterface[Any]):
    """Add one manual page for each command to share/man/man1."""

    PLUGIN_NAME = "custom"
    _folder: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Generate the pages, except for an editable installation."""
        if version == "editable":
            return
        # The pages are those of this source tree, whatever is installed beside the build backend.
        sys.path[:0] = [str(Path(self.root, "docs")), str(Path(self.root, "analysis"))]
        sys.dont_write_bytecode = True
        from sojourn_docs.manual import pages  # noqa: PLC0415 - importable from here on

        self._folder = Path(tempfile.mkdtemp(prefix="sojourn-man-"))
        for name, text in pages().items():
            (self._folder / name).write_text(text, encoding="utf-8")
        build_data["shared_data"][str(self._folder)] = "share/man/man1"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove the generated pages: the wheel has them."""
        if self._folder is not None:
            shutil.rmtree(self._folder)
