"""``sojourn watch`` on a real terminal, under tmux: contents, keys, bytes sent, and exit."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from watch_support import record, until

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

SOJOURN = f"{shlex.quote(sys.executable)} -m sojourn"


class Terminal:
    """A terminal of its own with a shell in it."""

    def __init__(self, folder: Path) -> None:
        self._tmux = ["tmux", "-S", str(folder / "tmux"), "-f", os.devnull]
        self._environment = {k: v for k, v in os.environ.items() if not k.startswith(("TMUX", "LC_", "LANG"))}
        self._environment |= {"COLUMNS": "100", "LINES": "30"}  # some shells export them, and never change them again
        shell = "env PS1='$ ' LC_ALL=C.UTF-8 bash --norc --noprofile"
        self.tmux("new-session", "-d", "-s", "t", "-x", "100", "-y", "30", shell)

    def tmux(self, *arguments: str) -> str:
        process = subprocess.run(
            [*self._tmux, *arguments], capture_output=True, text=True, timeout=60, env=self._environment, check=True
        )
        return process.stdout

    def keys(self, *keys: str) -> None:
        self.tmux("send-keys", "-t", "t", *keys)

    def text(self) -> str:
        return self.tmux("capture-pane", "-p", "-t", "t")

    def shows(self, *texts: str) -> None:
        """Wait until all of them are on the screen."""
        try:
            until(lambda: all(text in self.text() for text in texts))
        except AssertionError:
            pytest.fail(f"never seen: {texts} in\n{self.text()}")


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    with tempfile.TemporaryDirectory(prefix="tmux") as folder:  # a socket's path must be short
        produced = Terminal(Path(folder))
        yield produced
        produced.tmux("kill-server")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    now = time.time()
    path = tmp_path / "access.log"
    routes = ("/slow", "/fast", "/fast")
    path.write_bytes(
        b"".join(
            record(now - 90 + k / 10, 0.2, 0.3 if k % 3 == 0 else 0.01, route=routes[k % 3], worker=str(k % 2),
                   upstream_addr=f"10.0.0.{k % 2}:80")
            for k in range(880)
        )
    )  # fmt: skip
    return path


def test_an_incident_on_a_terminal(terminal: Terminal, log: Path, tmp_path: Path) -> None:
    def append(route: str, count: int = 20) -> None:
        with log.open("ab") as file:
            file.write(
                b"".join(record(time.time(), 2.0, 0.5, route=route, upstream_addr="10.0.0.7:80") for _ in range(count))
            )

    terminal.keys(f"{SOJOURN} watch {log} --every 0.5; echo left=$?", "Enter")
    terminal.shows("by route, 1 min", "/slow", "/fast", "10.0.0.1:80", "otal wait", "q quit")
    terminal.shows("It is a queue")

    append("/appended")
    terminal.shows("/appended")

    terminal.keys("g")
    terminal.shows("by upstream, 1 min", "most seconds first")
    terminal.keys("s", "s", "Right")
    terminal.shows("most response p99 first")
    terminal.keys("Left")
    terminal.shows("most response p50 first")
    terminal.keys("w")
    terminal.shows("by upstream, 10 min")
    terminal.keys("g", "g", "g", "g")
    terminal.shows("by route, 10 min")
    terminal.keys("?")
    terminal.shows("next column to group by", "Times in milliseconds")
    terminal.keys("?")
    terminal.shows("by route, 10 min")

    terminal.keys("f", "slo", "Enter")
    terminal.shows("only slo")
    until(lambda: (text := terminal.text()) and not _rows(text, "/fast") and _rows(text, "/slow"))
    terminal.keys("f", "C-u", "Enter")
    until(lambda: _rows(text := terminal.text(), "/fast") and "only slo" not in text)

    log.rename(tmp_path / "access.log.1")
    terminal.shows("no such file; reading starts when it is created")
    append("/rotated")
    terminal.shows("/rotated")
    os.truncate(log, 0)
    append("/truncated")
    terminal.shows("/truncated")

    sent = tmp_path / "sent"
    terminal.tmux("pipe-pane", "-t", "t", f"cat >> {shlex.quote(str(sent))}")
    before = _settled(sent)
    time.sleep(2)
    quiet = (sent.stat().st_size - before) / 4
    append("/moving", 5)
    terminal.shows("/moving")
    time.sleep(1)
    assert quiet < 1_000  # bytes for a redraw with few changes; a full redraw takes over 3,000
    assert 0 < sent.stat().st_size - before < 10_000
    terminal.tmux("pipe-pane", "-t", "t")

    terminal.keys("p")
    terminal.shows("PAUSED")
    append("/unseen")
    time.sleep(1.2)
    assert "/unseen" not in terminal.text()
    terminal.keys("p")
    terminal.shows("/unseen")

    for width, height in ((40, 10), (140, 45)):
        terminal.tmux("resize-window", "-t", "t", "-x", str(width), "-y", str(height))
        terminal.shows("now, 10 s", "10 min", "q quit")
        until(lambda height=height: terminal.text().splitlines()[height - 1].startswith("q quit"))  # type: ignore[misc]

    terminal.keys("C-z")
    terminal.shows("Stopped", "left=147")
    terminal.keys("fg", "Enter")
    terminal.shows("now, 10 s", "by route, 10 min", "backends, 1 min", "q quit")

    terminal.keys("q")
    until(lambda: "q quit" not in terminal.text())
    terminal.keys("echo left=$?", "Enter")
    terminal.shows("left=0")
    assert "q quit" not in terminal.text()
    _in_order(terminal)


def _rows(text: str, name: str) -> int:
    """Lines of a terminal that begin with a name."""
    return sum(line.startswith(name) for line in text.splitlines())


def _settled(path: Path) -> int:
    until(path.exists)
    return path.stat().st_size


def _in_order(terminal: Terminal) -> None:
    """The shell echoes what is typed and takes whole lines again."""
    terminal.keys(
        "stty -a | tr -s ' ;' '\\n' | grep -xE -- '-?(echo|icanon|isig|icrnl)' | sort | xargs echo modes", "Enter"
    )
    terminal.shows("modes echo icanon icrnl isig")


def test_piped_log_without_colours_or_unicode_ends_on_sigterm(terminal: Terminal, log: Path, tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    terminal.tmux("pipe-pane", "-t", "t", f"cat >> {shlex.quote(str(sent))}")
    command = f"tail -n +1 -f {log} | NO_COLOR=1 LC_ALL=C {SOJOURN} watch - --by worker; echo left=$?"
    terminal.keys(command, "Enter")
    terminal.shows("by worker, 1 min", "queue <=")
    terminal.keys("g")  # from the terminal: standard input is the log
    terminal.shows("by status, 1 min")
    data = sent.read_bytes()
    assert not re.search(rb"\x1b\[([0-9;]*;)?(3[0-7]|4[0-7]|[34]8;[25];[0-9;]+)(;[0-9;]*)?m", data)
    assert data.isascii()
    os.kill(_watching(terminal), signal.SIGTERM)
    terminal.shows("left=143")
    _in_order(terminal)
    terminal.keys("C-c")


def test_closed_terminal_ends_it_without_output(terminal: Terminal, log: Path, tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    terminal.keys(f"{SOJOURN} watch {log} 2> {errors}", "Enter")
    terminal.shows("by route, 1 min", "q quit")  # on standard output; standard error is redirected
    process = Path("/proc") / str(_watching(terminal))
    terminal.tmux("new-session", "-d", "-s", "other")  # so that the server lives on
    terminal.tmux("kill-session", "-t", "t")
    until(lambda: not process.exists())
    assert errors.read_text() == ""


def _watching(terminal: Terminal) -> int:
    """Return the id of the terminal's ``sojourn watch`` process."""
    shell = int(terminal.tmux("list-panes", "-F", "#{pane_pid}"))
    (result,) = [
        int(process.name)
        for process in Path("/proc").glob("[0-9]*")
        if _parent(process) == shell and b"sojourn\0watch" in (process / "cmdline").read_bytes()
    ]
    return result


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0  # it has ended
