"""What people expect of a command: exit codes, colours, quiet, completion, versions, a start that does not drag."""

from __future__ import annotations

import functools
import inspect
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
from sojourn.cli import app, main

ROOT = Path(__file__).parents[3]
RAMP = ROOT / "docs/examples/ramp.jsonl.gz"
COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:[34]\d|9\d)[;m]")

COMMAND: Any = typer.main.get_command(app)
CONTEXT = typer.Context(COMMAND)
VERBS: list[str] = [*COMMAND.commands]
# What each is given, so that it fails for want of what it reads; the others need nothing, or are groups.
ABSENT = {
    **{verb: [verb, "/nowhere/a.jsonl"] for verb in VERBS},
    "capture": ["capture", "--nginx", "/nowhere/nginx.conf", "--out", "/nowhere/f.pcap"],
    "compare": ["compare", "/nowhere/a.jsonl", "/nowhere/b.jsonl"],
    "export": ["export", "/nowhere/a.jsonl", "--once"],
    "install": ["install", "nginx", "/nowhere/nginx.conf"],
    "uninstall": ["uninstall", "nginx", "/nowhere/nginx.conf"],
    "movie": ["movie", "/nowhere/a.jsonl", "--out", "/nowhere/f.html"],
    "plot": ["plot", "/nowhere/a.jsonl", "ccdf", "--out", "/nowhere/f.svg"],
    "report": ["report", "/nowhere/a.jsonl", "--html", "/nowhere/f.html"],
    "simulate": ["simulate", "--arrivals", "trace:/nowhere/a", "--service", "constant:0.1"],
    "store": ["store", "load", "chdb:///nowhere/store", "/nowhere/a.jsonl"],
    "timeline": ["timeline", "/nowhere/a.jsonl", "--out", "/nowhere/f.pftrace"],
    "watch": ["watch", "/nowhere/a.jsonl", "--once"],
}
GROUPS = ("store", "install", "uninstall")


def ended(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["sojourn", "--no-config", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


@pytest.mark.parametrize("verb", VERBS)
def test_exit_codes_of_every_verb(
    verb: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """0 for its help, 1 for what cannot be read, 2 for an option it does not have, 130 when it is interrupted."""
    assert ended([verb, "--help"], monkeypatch) == 0
    assert ended([verb, "--no-such-option"], monkeypatch) == 2
    assert "Traceback" not in "".join(capfd.readouterr())
    if verb != "config":
        assert ended(ABSENT[verb], monkeypatch) == 1
        stdout, stderr = capfd.readouterr()
        assert "Traceback" not in stdout + stderr
        assert "fault of sojourn's own" not in stderr
        assert len(stderr) > 10


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in GROUPS])
def test_every_verb_that_is_interrupted_ends_with_130(
    verb: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    module, name = COMMAND.places[verb]

    @functools.wraps(getattr(import_module(module), name))
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(import_module(module), name, interrupted)
    assert ended(ABSENT[verb] if verb != "config" else ["config"], monkeypatch) == 130
    assert "Traceback" not in capfd.readouterr().err


def test_interrupted_is_130() -> None:
    """Of a real process that waits for a log on its standard input: Polars would have the read begin again."""
    started = subprocess.Popen(
        [sys.executable, "-m", "sojourn", "split", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + 60
        asleep = 0
        while asleep < 20:  # for a second: it waits for its input
            assert started.poll() is None
            assert time.monotonic() < deadline
            asleep = asleep + 1 if "State:\tS" in Path(f"/proc/{started.pid}/status").read_text() else 0
            time.sleep(0.05)
        started.send_signal(signal.SIGINT)
        started.wait(timeout=60)
        assert started.returncode == 130
        assert "Traceback" not in (started.stderr.read() if started.stderr else "")
    finally:
        started.kill()
        started.wait()


@pytest.mark.parametrize("arguments", [["lab"], ["lab", "list"], ["lab", "--help"]])
def test_without_the_lab_its_verb_names_the_command_that_installs_it(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sojourn.cli.verbs._plugins", tuple)
    assert ended(arguments, monkeypatch) == 1
    output, errors = capfd.readouterr()
    assert (output, errors) == (
        "",
        "sojourn: sojourn lab needs the Python package sojourn-lab, which is not installed: "
        "pip install '.[lab]' ./lab ./collector/middleware/python (in a checkout of Sojourn)\n",
    )


def test_an_unexpected_error_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for error, words in (
        (
            RuntimeError("a\x1b[31m\nb"),
            "this is a fault of sojourn's own: RuntimeError: a\\x1b[31m. Set SOJOURN_DEBUG=1",
        ),
        (OSError(28, "No space left on device", "/f"), "/f: No space left on device"),
        (ModuleNotFoundError("no", name="chdb.session"), "chdb, which is not installed: pip install '.[store]'"),
        (ModuleNotFoundError("no", name="PIL"), "PIL, which is not installed: pip install '.[charts]' (in"),
    ):

        def fail(*_: object, error: Exception = error, **__: object) -> None:
            raise error

        monkeypatch.setattr("sojourn.analyses.split.run.split", fail)
        assert ended(["split", str(RAMP)], monkeypatch) == 1
        assert words in capfd.readouterr().err
    monkeypatch.setenv("SOJOURN_DEBUG", "1")
    monkeypatch.setattr(sys, "argv", ["sojourn", "split", str(RAMP)])
    with pytest.raises(ModuleNotFoundError):
        main()


@pytest.mark.parametrize("arguments", [["split", "LOG"], ["split", "LOG", "--json"], ["--help"]])
def test_a_pipe_closed_early_is_no_failure_and_a_full_disk_is(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "sojourn", *(str(RAMP) if each == "LOG" else each for each in arguments)]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
    if Path("/dev/full").exists() and "--json" in arguments:
        with open("/dev/full", "w") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
        assert done.returncode == 1
        assert done.stderr == "sojourn: standard output: No space left on device\n"


def on_a_terminal(arguments: list[str], **env: str) -> str:
    """What a command writes to a terminal of its own, stdout and stderr."""
    own, theirs = pty.openpty()
    base = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "FORCE_COLOR", "TERM"}}
    started = subprocess.Popen(
        [sys.executable, "-m", "sojourn", *arguments], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
        env={**base, "COLUMNS": "100", "TERM": "xterm-256color", **env},
    )  # fmt: skip
    os.close(theirs)
    reported = b""
    deadline = time.monotonic() + 60
    try:
        while time.monotonic() < deadline:
            if select.select([own], [], [], 0.2)[0]:
                try:
                    part = os.read(own, 65_536)
                except OSError:  # the other end is closed: it has ended
                    break
                reported += part
                if not part:
                    break
        assert started.wait(timeout=60) == 0
    finally:
        started.kill()
        started.wait()
        os.close(own)
    return reported.decode()


def test_colours_and_progress_are_for_terminals_that_want_them() -> None:
    split = ["split", str(RAMP)]
    coloured = on_a_terminal(split)
    assert COLOUR.search(coloured)
    assert "reading" in coloured
    plain = on_a_terminal([*split, "--quiet"], NO_COLOR="1")
    assert not COLOUR.search(plain)
    assert "reading" not in plain
    assert "\x1b" not in on_a_terminal(split, TERM="dumb")
    wanted = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    piped = subprocess.run(
        [sys.executable, "-m", "sojourn", *split], capture_output=True, text=True, check=True, timeout=60,
        env={**wanted, "FORCE_COLOR": "1", "TERM": "xterm"},
    )  # fmt: skip
    assert COLOUR.search(piped.stdout)
    assert piped.stderr == ""


def test_an_output_of_fewer_characters_loses_those_and_nothing_else() -> None:
    shop = str(ROOT / "docs/examples/shop.jsonl.gz")
    done = subprocess.run(
        [sys.executable, "-m", "sojourn", "clock", shop], capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "?" in done.stdout


def commands(group: Any = COMMAND, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    result: list[Any] = []
    for name, command in group.commands.items():
        inner = (*path, name)
        result += commands(command, inner) if hasattr(command, "commands") else [(inner, command)]
    return result


@pytest.mark.parametrize(
    ("path", "command"), commands(), ids=lambda each: " ".join(each) if isinstance(each, tuple) else ""
)
def test_commands_with_progress_have_quiet_and_every_option_has_help(path: tuple[str, ...], command: Any) -> None:
    options = [each for each in command.params if each.param_type_name == "option"]
    assert command.help
    for each in options:
        assert each.help, f"{path}: {each.opts}"
    source = inspect.getsource(inspect.unwrap(command.callback))
    module = inspect.getsource(import_module(command.callback.__module__))
    if path[0] != "lab" and re.search(
        r"split_of\(|reading_bar\(|doing\(|quiet", source if path[0] == "store" else module
    ):
        assert any("--quiet" in each.opts for each in options) or "quiet" not in source, path


def test_the_version_names_the_engines_in_one_line() -> None:
    text = subprocess.check_output([sys.executable, "-m", "sojourn", "--version"], text=True)
    assert re.fullmatch(
        r"sojourn \S+ \(python 3[\d.]+, polars [\d.]+, duckdb [\d.]+, numba [\d.]+, (chdb [\d.]+, )?altair [\d.]+, "
        r"vega-lite [\d.]+\)\n",
        text,
    ), text


def test_a_start_loads_no_more_than_it_needs() -> None:
    """The help of all verbs and of one, and a completion, take no engine, and not what the lab is made of."""
    heavy = (
        "polars",
        "duckdb",
        "numpy",
        "altair",
        "numba",
        "scipy",
        "aiohttp",
        "msgspec",
        "sojourn_lab.cli",
        "PIL",
        "curses",
    )
    code = (
        "import sys\n"
        "sys.argv[0] = 'sojourn'\n"
        "from sojourn.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print(sorted(m for m in {heavy} if m in sys.modules), file=sys.stderr)"
    )
    completing = {"_SOJOURN_COMPLETE": "complete_bash", "COMP_WORDS": "sojourn sp", "COMP_CWORD": "1"}
    for arguments, env in ((["--help"], {}), (["split", "--help"], {}), ([], completing)):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True, timeout=60,
            env={**os.environ, **env},
        )  # fmt: skip
        assert done.stderr.strip().splitlines()[-1] == "[]", arguments
        assert "split" in done.stdout


COMPLETED = [
    ("sp", {"split"}),
    ("split --by ro", {"route"}),
    ("blame x.jsonl --by st", {"status"}),
    ("simulate --discipline ada", {"adaptive_lifo"}),
    ("plot x.jsonl cc", {"ccdf"}),
    ("plot acc", set()),
    ("plot x.jsonl heatmap --of q", {"queueing"}),
    ("lab run six-", {"six-requests"}),
    ("lab r", {"run", "runs", "replay"}),
    ("split --sin", {"--since"}),
    ("split acc", set()),
]


def test_bash_completes() -> None:
    """The function that bash calls, in a real bash, with the words as bash has them."""
    command = Path(sys.executable).with_name("sojourn")
    if not command.exists() or shutil.which("bash") is None:
        pytest.skip("needs bash and the installed command")
    script = f'PATH="{command.parent}:$PATH"; eval "$(sojourn --show-completion)"\n'
    for words, _ in COMPLETED:
        arguments = ["sojourn", *words.split()]
        script += f"COMPREPLY=(); COMP_WORDS=({' '.join(arguments)}); COMP_CWORD={len(arguments) - 1}\n"
        script += '_sojourn_completion sojourn; echo "${COMPREPLY[@]}"\n'
    done = subprocess.run(
        ["bash", "-c", script + "complete -p sojourn >&2"], capture_output=True, text=True, check=True, timeout=100
    )
    reported = [set(line.split()) for line in done.stdout.splitlines()]
    assert dict(zip([words for words, _ in COMPLETED], reported, strict=True)) == dict(COMPLETED)
    assert "-o default" in done.stderr  # files where there is nothing to complete


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_scripts_for_the_shells_are_there(shell: str) -> None:
    env = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    script = subprocess.check_output(
        [sys.executable, "-c", "from sojourn.cli import main; main()", "--show-completion", shell], text=True, env=env
    )
    assert "_COMPLETE=complete_" + shell in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=30)
