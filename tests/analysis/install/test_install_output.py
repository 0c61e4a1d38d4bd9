"""What the commands print, in snapshots: paths and ports of this machine replaced."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from install_support import Tree, apps_of, nginx_of, tree_of
from syrupy.assertion import SnapshotAssertion


def plain(one: Tree, text: str) -> str:
    """Return an output without what differs from machine to machine and from run to run."""
    text = text.replace(str(one.folder), "/FOLDER")
    for name in ("PORT", "APP", "TLS"):
        text = text.replace(f":{one.values[name]}", f":{name}")
    text = re.sub(r"backups/\S+", "backups/TIME", text)
    text = re.sub(r"/\S+/ngx_http_js_module\.so", "/MODULES/ngx_http_js_module.so", text)
    text = re.sub(r"stamped [0-9.]+", "stamped NOW", text)
    return re.sub(r"^  \{.*\}$", "  {LINE}", text, flags=re.M)


@pytest.mark.parametrize("name", ["behind-balancer", "conf-d"])
def test_output_of_installation_and_removal(name: str, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    one = tree_of(name, tmp_path)
    with apps_of(one), nginx_of(one):
        assert plain(one, one.install()[1]) == snapshot(name="preview")
        _, done = one.install("--yes")
        steps, _, _ = done[done.index("backup:") :].partition("sojourn doctor")
        assert plain(one, steps) == snapshot(name="installation")
        assert plain(one, one.uninstall()[1]) == snapshot(name="removal")
        one.uninstall("--yes")
        assert plain(one, one.uninstall("--yes")[1]) == snapshot(name="nothing to remove")
