"""Public kinds of set-ups: each is installed, receives a request through each location, and is as before afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from install_support import SETUPS, Tree, apps_of, nginx_of, tree_of
from sojourn.doctor.doctor import diagnose

# Set-up -> requests that reach an app (path, its app's address ends so), by the log.
NAMES = sorted(path.name for path in SETUPS.iterdir())


def rows(tree: Tree) -> list[dict[str, str]]:
    return [json.loads(line) for line in tree.log.read_text().splitlines()]


@pytest.mark.parametrize("name", NAMES)
def test_installs_and_uninstalls(name: str, tmp_path: Path) -> None:
    tree = tree_of(name, tmp_path)
    with apps_of(tree), nginx_of(tree):
        before = tree.contents()
        code, shown = tree.install()
        assert (code, tree.contents()) == (0, before), shown
        code, done = tree.install("--yes")
        print(done)
        assert code == 0, done
        assert tree.contents() != before
        proxied = [row for row in rows(tree) if row["upstream_addr"]]
        assert proxied, done
        assert all(row["request_start"] and row["stamp"] == "own" for row in proxied)
        assert not [each for each in diagnose([str(tree.conf)]).findings if each.severity == "error"]
        installed = tree.contents()
        code, again = tree.install("--yes")
        assert (code, tree.contents()) == (0, installed), again
        code, done = tree.uninstall("--yes")
        assert code == 0, done
        assert tree.contents() == before
