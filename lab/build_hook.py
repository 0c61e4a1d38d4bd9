"""Build hook: add the files that the lab shares with other folders of the checkout, and its manual page.

A source archive has them in their places, so that a wheel is made from it without the checkout.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "sojourn_lab"
PAGE = "man/sojourn-lab.1"

# Folder or files of the checkout -> folder of the package, by the names of `sojourn_lab.resources`.
SHARED = {
    "lab/scenarios": "scenarios",
    "lab/backend": "backend",
    "lab/playbooks": "playbooks",
    "lab/k6": "k6",
    "collector/vector/config": "vector/config",
    "collector/middleware/php/auto_prepend.php": "middleware/php/auto_prepend.php",
    "collector/middleware/php/src": "middleware/php/src",
    "collector/middleware/node/package.json": "middleware/node/package.json",
    "collector/middleware/node/src": "middleware/node/src",
    "collector/middleware/ruby/lib": "middleware/ruby/lib",
    "collector/middleware/go/go.mod": "middleware/go/go.mod",
    "collector/middleware/java/src/main/java": "middleware/java/src/main/java",
}
GO = "collector/middleware/go"


class SharedFiles(BuildHookInterface[Any]):
    """Complete a source archive, or a wheel that is made from a checkout."""

    PLUGIN_NAME = "custom"
    _folder: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files, except for an editable installation, which reads them in the checkout."""
        if version == "editable":
            return
        page = Path(self.root, PAGE)
        if not page.exists():
            checkout = Path(self.root).parent
            build_data["force_include"].update(shared_files(checkout))
            page = self._generated_page(checkout)
        if self.target_name == "wheel":
            build_data["shared_data"][str(page)] = "share/man/man1/sojourn-lab.1"
        else:
            build_data["force_include"][str(page)] = PAGE

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove the generated page: the archive has it."""
        if self._folder is not None:
            shutil.rmtree(self._folder)

    def _generated_page(self, checkout: Path) -> Path:
        # The page is that of this checkout, whatever is installed beside the build backend.
        sys.path[:0] = [str(checkout / folder) for folder in ("docs", "analysis", "lab")]
        sys.dont_write_bytecode = True
        from sojourn_docs.manual import lab_page  # noqa: PLC0415 - importable from here on

        self._folder = Path(tempfile.mkdtemp(prefix="sojourn-man-"))
        page = self._folder / "sojourn-lab.1"
        page.write_text(lab_page(), encoding="utf-8")
        return page


def shared_files(checkout: Path) -> dict[str, str]:
    """Return path in the checkout -> path in the archive; the tests of the Go module are left out."""
    sources = {
        f"{GO}/{file.name}": f"middleware/go/{file.name}"
        for file in sorted(checkout.joinpath(GO).glob("*.go"))
        if not file.name.endswith("_test.go")
    }
    return {str(checkout / source): f"{PACKAGE}/{target}" for source, target in {**SHARED, **sources}.items()}
