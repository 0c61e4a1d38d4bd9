"""The syntax of an nginx configuration: directives, blocks and includes, with no more meaning than that."""

from __future__ import annotations

import glob
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from sojourn.capture.errors import CaptureError
from sojourn.words import printable

_DEEPEST = 20
_NGINX_PATIENCE_S = 20.0
# A comment, a quoted word, a bare word (which may hold ${name}), or one of ; { }
_TOKEN = re.compile(
    r"""\s+|\#[^\n]*|(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<mark>[;{}])|"""
    r"""(?P<bare>(?:\\.|\$\{[^}\s]*\}|[^\s;{}"'\\])(?:\\.|\$\{[^}\s]*\}|[^\s;{}\\])*)""",
    re.S,
)
_ESCAPED = re.compile(r"""\\([\\"'\s;{}])""")
_LUA = re.compile(r"[{}]")
_EMERG = re.compile(r".*?\[emerg\] (?:\d+#\d+: )?")
_DUMPED = re.compile(r"^# configuration file (.+):\n", re.M)


@dataclass
class Directive:
    """``name args…;``, or ``name args… { block }``. ``where``: file and line."""

    name: str
    args: list[str]
    where: str
    block: list[Directive] = field(default_factory=list)

    def all(self, *names: str) -> Iterator[Directive]:
        """The directives of these names anywhere within the block."""
        for each in self.block:
            if each.name in names:
                yield each
            yield from each.all(*names)


Include = Callable[[str], list[tuple[str, str]]]
"""A pattern of an include -> the (name, text) of each file."""


def configuration(path: Path) -> tuple[Directive, list[str]]:
    """The configuration with its includes, as the block of a directive without a name.

    nginx itself is asked (``nginx -T``), which knows its prefix and what is compiled in. Where there is none, or it
    refuses the file (one of conf.d alone, say), the files are read here.

    Returns:
        The directives; and, in sentences, why nginx did not tell and which files that are included were not there.

    Raises:
        CaptureError: the file cannot be read, or one is no configuration.
    """
    told, reason = _told_by_nginx(path)
    if told:
        texts = dict(told)

        def dumped(pattern: str) -> list[tuple[str, str]]:
            return [(name, text) for name, text in texts.items() if name == pattern or fnmatch(name, pattern)]

        return Directive("", [], str(path), _parsed(told[0], _beside(Path(told[0][0]).parent, dumped), 0)), []
    notes = [f"{path} was not read by nginx itself: {reason}."]

    def found(pattern: str) -> list[tuple[str, str]]:
        names = sorted(glob.glob(pattern))
        if not names and not glob.has_magic(pattern):
            notes.append(f"{printable(pattern)} is included, but not there.")
        return [(name, _text(Path(name))) for name in names]

    include = _beside(path.resolve().parent, found)
    return Directive("", [], str(path), _parsed((str(path), _text(path)), include, 0)), notes


def parsed(text: str, name: str = "nginx.conf") -> Directive:
    """The directives of a text that includes nothing."""
    return Directive("", [], name, _parsed((name, text), lambda _: [], 0))


def _told_by_nginx(path: Path) -> tuple[list[tuple[str, str]], str | None]:
    """(name, text) of each file nginx reads, the first being ``path``; or none, and why."""
    _text(path)  # a file that is not there is the user's error, and no reason to go on
    try:
        done = subprocess.run(
            ["nginx", "-T", "-c", str(path.resolve())],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_NGINX_PATIENCE_S,
        )
    except FileNotFoundError:
        return [], "nginx is not installed here"
    except (OSError, subprocess.TimeoutExpired):
        return [], "nginx could not be run"
    if done.returncode:
        lines = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if "[emerg]" in line]
        said = _EMERG.sub("", lines[-1]) if lines else "it does not say why"
        return [], f"nginx does not take it ({printable(said, 200)})"
    parts = _DUMPED.split(done.stdout.decode("utf-8", "replace"))[1:]
    return list(zip(parts[::2], parts[1::2], strict=True)), None


def _beside(folder: Path, found: Include) -> Include:
    """Includes are relative to the folder of the first file, whichever file has them."""
    return lambda pattern: found(str(folder / pattern))


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError as error:
        raise CaptureError(f"{path}: cannot be read ({error.strerror})") from None


def _parsed(source: tuple[str, str], include: Include, depth: int) -> list[Directive]:
    if depth > _DEEPEST:
        raise CaptureError(f"{printable(source[0])}: includes are nested more than {_DEEPEST} deep")
    return _Parser(*source, include, depth).directives()


class _Parser:
    """Of one file."""

    def __init__(self, name: str, text: str, include: Include, depth: int) -> None:
        self._name, self._text, self._include, self._depth = name, text, include, depth
        self._at, self._line, self._begun = 0, 1, 1
        self._words: list[str] = []
        self._open: list[list[Directive]] = [[]]

    def directives(self) -> list[Directive]:
        """All of the file, those it includes among them."""
        while self._at < len(self._text):
            match = _TOKEN.match(self._text, self._at)
            if match is None:
                raise self._error("this is no nginx configuration")
            begin, self._at = self._at, match.end()
            self._take(match)
            self._line += self._text.count("\n", begin, self._at)
        if len(self._open) > 1 or self._words:
            raise self._error("the file ends within a directive")
        return self._open[0]

    def _take(self, match: re.Match[str]) -> None:
        if word := match["bare"] or match["quoted"]:
            self._begun = self._begun if self._words else self._line
            self._words.append(_ESCAPED.sub(r"\1", word[1:-1] if match["quoted"] else word))
        elif match["mark"] == "}":
            if len(self._open) == 1 or self._words:
                raise self._error("an unexpected }")
            self._open.pop()
        elif match["mark"]:
            if not self._words:
                raise self._error(f"an unexpected {match['mark']}")
            self._end(match["mark"])

    def _end(self, mark: str) -> None:
        """A directive is read up to its ``;`` or ``{``."""
        made = Directive(self._words[0], self._words[1:], f"{self._name}:{self._begun}")
        self._words = []
        if mark == ";" and made.name == "include" and made.args:
            for each in self._include(made.args[0]):
                self._open[-1].extend(_parsed(each, self._include, self._depth + 1))
            return
        self._open[-1].append(made)
        if mark == "{" and made.name.endswith("_by_lua_block"):
            self._at = _end_of_lua(self._text, self._at)
        elif mark == "{":
            self._open.append(made.block)

    def _error(self, reason: str) -> CaptureError:
        return CaptureError(f"{printable(self._name)}:{self._line}: {reason}")


def _end_of_lua(text: str, begin: int) -> int:
    """Behind the brace that closes a block of another language."""
    depth = 1
    for match in _LUA.finditer(text, begin):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.end()
    return len(text)
