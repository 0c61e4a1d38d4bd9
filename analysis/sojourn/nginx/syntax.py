"""The syntax of an nginx configuration: directives, blocks and includes, with no more meaning than that."""

from __future__ import annotations

import glob
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from sojourn.model.errors import CaptureError
from sojourn.model.formatting import printable

_DEEPEST = 20
_DEEPEST_BLOCK = 100
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


@dataclass(frozen=True)
class Place:
    """Where a directive stands in its file's text: what an edit needs.

    Attributes:
        file, line: the file as nginx names it, and the line of its first word, from 1.
        begin, end: characters of the file, from its first word to behind its ``;`` or ``{``.
        indent: the white space its line begins with.
    """

    file: str
    line: int
    begin: int
    end: int
    indent: str


@dataclass
class Directive:
    """``name args…;``, or ``name args… { block }``.

    ``where``: file and line. ``place``: the same to the character; ``close``: the character behind the ``}`` of its
    block, or the ``;``. ``via``: the ``include`` through which it came to its block, None where it stands there itself.
    """

    name: str
    args: list[str]
    where: str
    block: list[Directive] = field(default_factory=list)
    place: Place = field(default=Place("", 0, 0, 0, ""), compare=False, repr=False)
    close: int = field(default=0, compare=False, repr=False)
    via: Directive | None = field(default=None, compare=False, repr=False)

    def all(self, *names: str) -> Iterator[Directive]:
        """The directives of these names anywhere within the block."""
        for each in self.block:
            if each.name in names:
                yield each
            yield from each.all(*names)


Include = Callable[[str], list[tuple[str, str]]]
"""A pattern of an include -> the (name, text) of each file."""


@dataclass(frozen=True)
class Reading:
    """A configuration as it was read.

    Attributes:
        root: a directive without a name, whose block it is.
        refusal: why nginx itself did not tell; None where it did.
        missing: sentences about files that are included and were not there.
        files: the text of each file that was read, by the name that the places in ``root`` have.
    """

    root: Directive
    refusal: str | None
    missing: tuple[str, ...]
    files: dict[str, str]


def configuration(path: Path) -> tuple[Directive, list[str]]:
    """The configuration with its includes, as the block of a directive without a name; what ``reading`` has, in short.

    Returns:
        The directives; and, in sentences, why nginx did not tell and which files that are included were not there.

    Raises:
        CaptureError: as for ``reading``.
    """
    read = reading(path)
    refusal = [] if read.refusal is None else [f"{path} was not read by nginx itself: {read.refusal}."]
    return read.root, [*refusal, *read.missing]


def reading(path: Path) -> Reading:
    """The configuration with its includes.

    nginx itself is asked (``nginx -T``), which knows its prefix and what is compiled in. Where there is none, or it
    refuses the file (one of conf.d alone, say), the files are read here.

    Raises:
        CaptureError: the file cannot be read, or one is no configuration.
    """
    told, reason = _told_by_nginx(path)
    if told:
        texts = dict(told)

        def dumped(pattern: str) -> list[tuple[str, str]]:
            return [(name, text) for name, text in texts.items() if name == pattern or _matches(name, pattern)]

        root = Directive("", [], str(path), _parsed(told[0], _beside(Path(told[0][0]).parent, dumped), 0))
        return Reading(root, None, (), texts)
    notes: list[str] = []
    texts = {str(path): _text(path)}

    def found(pattern: str) -> list[tuple[str, str]]:
        names = sorted(glob.glob(pattern))
        if not names and not glob.has_magic(pattern):
            notes.append(f"{printable(pattern)} is included, but not there.")
        texts.update((name, _text(Path(name))) for name in names)
        return [(name, texts[name]) for name in names]

    include = _beside(Path(os.path.abspath(path)).parent, found)
    root = Directive("", [], str(path), _parsed((str(path), texts[str(path)]), include, 0))
    return Reading(root, reason, tuple(notes), texts)


def parsed(text: str, name: str = "nginx.conf") -> Directive:
    """The directives of a text that includes nothing."""
    return Directive("", [], name, _parsed((name, text), lambda _: [], 0))


def _told_by_nginx(path: Path) -> tuple[list[tuple[str, str]], str | None]:
    """(name, text) of each file nginx reads, the first being ``path``; or none, and why."""
    _text(path)  # a file that is not there is the user's error, and no reason to go on
    try:
        done = subprocess.run(
            ["nginx", "-T", "-c", os.path.abspath(path)],
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


def _matches(name: str, pattern: str) -> bool:
    """As a shell matches a path: no ``*`` is for several folders."""
    return name.count("/") == pattern.count("/") and fnmatch(name, pattern)


def _beside(folder: Path, found: Include) -> Include:
    """Includes are relative to the folder of the first file (of a link, not of what it leads to), whoever has them."""
    return lambda pattern: found(os.path.join(folder, pattern))  # word for word, as nginx tells the names


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
        self._at, self._line, self._begun, self._first = 0, 1, 1, 0
        self._words: list[str] = []
        self._open: list[list[Directive]] = [[]]
        self._blocks: list[Directive] = []

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
            if not self._words:
                self._begun, self._first = self._line, match.start()
            self._words.append(_ESCAPED.sub(r"\1", word[1:-1] if match["quoted"] else word))
        elif match["mark"] == "}":
            if len(self._open) == 1 or self._words:
                raise self._error("an unexpected }")
            self._open.pop()
            self._blocks.pop().close = self._at
        elif match["mark"]:
            if not self._words:
                raise self._error(f"an unexpected {match['mark']}")
            self._end(match["mark"])

    def _end(self, mark: str) -> None:
        """A directive is read up to its ``;`` or ``{``."""
        made = Directive(self._words[0], self._words[1:], f"{self._name}:{self._begun}")
        made.place = Place(self._name, self._begun, self._first, self._at, self._indent())
        made.close = self._at
        self._words = []
        if mark == ";" and made.name == "include" and made.args:
            files = self._include(made.args[0])
            if not files:  # it stays where it stands, for whoever knows what would have come
                self._open[-1].append(made)
            for each in files:
                brought = _parsed(each, self._include, self._depth + 1)
                for directive in brought:
                    directive.via = made
                self._open[-1].extend(brought)
            return
        self._open[-1].append(made)
        if mark == "{" and made.name.endswith("_by_lua_block"):
            self._at = made.close = _end_of_lua(self._text, self._at)
        elif mark == "{":
            if len(self._open) > _DEEPEST_BLOCK:
                raise self._error(f"blocks are nested more than {_DEEPEST_BLOCK} deep")
            self._open.append(made.block)
            self._blocks.append(made)

    def _indent(self) -> str:
        begin = self._text.rfind("\n", 0, self._first) + 1
        line = self._text[begin : self._first]
        return line[: len(line) - len(line.lstrip())]

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
