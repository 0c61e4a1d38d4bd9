"""Parse the syntax of an nginx configuration: directives, blocks and includes, without their meaning."""

from __future__ import annotations

import glob
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from types import MappingProxyType

from sojourn.model.errors import CaptureError
from sojourn.model.formatting import printable

_DEEPEST = 20
_DEEPEST_BLOCK = 100
_NGINX_PATIENCE_S = 20.0
# A comment, a quoted word, a bare word (which may hold ${name}), or one of ; { }
_TOKEN = re.compile(
    r"""\s+|\#[^\n]*|(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<mark>[;{}])|"""
    r"""(?P<bare>(?:\\.|\$\{[^}\s]*\}|[^\s;{}"'\\])(?:\\.|\$\{[^}\s]*\}|[^\s;{}\\])*)""",
    re.S | re.A,  # to nginx, only ASCII is white space
)
_ESCAPED = re.compile(r"""\\([\\"'\s;{}])""")
# A brace of Lua; or a comment or a string, in which braces are text.
_LUA = re.compile(
    r"""[{}]|(?:--)?\[(?P<level>=*)\[.*?\](?P=level)\]|--[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""", re.S
)
_EMERG = re.compile(r".*?\[emerg\] (?:\d+#\d+: )?")
_DUMPED = re.compile(r"^# configuration file (.+):\n", re.M)


@dataclass(frozen=True)
class Place:
    """The position of a directive in its file's text, for an edit.

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
    block, or the ``;``. ``source``: its text up to the ``;`` or ``{``, as it is written; empty for one of no file.
    ``via``: the ``include`` in the block's own file that brought it, None for a directive in that file; ``by``: the
    ``include`` that names its own file, which may itself be in an included one.
    """

    name: str
    args: list[str]
    where: str
    block: list[Directive] = field(default_factory=list)
    place: Place = field(default=Place("", 0, 0, 0, ""), compare=False, repr=False)
    close: int = field(default=0, compare=False, repr=False)
    source: str = field(default="", compare=False, repr=False)
    via: Directive | None = field(default=None, compare=False, repr=False)
    by: Directive | None = field(default=None, compare=False, repr=False)

    def all(self, *names: str) -> Iterator[Directive]:
        """Yield the directives of these names anywhere within the block."""
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
        refusal: why nginx itself did not read it; None where it did.
        missing: sentences about included files that do not exist.
        files: the text of each file that was read, by the name that the places in ``root`` have.
    """

    root: Directive
    refusal: str | None
    missing: tuple[str, ...]
    files: dict[str, str]


def configuration(path: Path) -> tuple[Directive, list[str]]:
    """Return the configuration with its includes as the block of a directive without a name; see ``reading``.

    Args:
        path: the first file.

    Returns:
        The directives; and sentences: why nginx did not read it, and which included files do not exist.

    Raises:
        CaptureError: as for ``reading``.
    """
    read = reading(path)
    refusal = [] if read.refusal is None else [f"{path} was not read by nginx itself: {read.refusal}."]
    return read.root, [*refusal, *read.missing]


def reading(path: Path) -> Reading:
    """Read a configuration with its includes.

    nginx itself dumps it (``nginx -T``): it knows its prefix and its modules. Without nginx, or if it refuses the file
    (one of conf.d alone, for example), the files are read directly.

    Raises:
        CaptureError: a file cannot be read, or is not a configuration.
    """
    dumped_files, reason = _dump_of_nginx(path)
    if dumped_files:
        texts = dict(dumped_files)

        def from_dump(pattern: str) -> list[tuple[str, str]]:
            return [(name, text) for name, text in texts.items() if name == pattern or _matches(name, pattern)]

        root = Directive(
            "", [], str(path), _parsed(dumped_files[0], _beside(Path(dumped_files[0][0]).parent, from_dump), 0)
        )
        return Reading(root, None, (), texts)
    return replace(reading_of_files(path, errors="replace"), refusal=reason)


def reading_of_files(
    path: Path, errors: str = "surrogateescape", contents: Mapping[str, str] = MappingProxyType({})
) -> Reading:
    """Read a configuration with its includes from the files themselves.

    Args:
        path: the first file.
        errors: how bytes that are not UTF-8 are decoded. With the default, the texts are those of the files to the
            byte: ``text.encode("utf-8", "surrogateescape")`` is the content.
        contents: real path -> text that is read in place of that of the file.

    Raises:
        CaptureError: a file cannot be read, or is not a configuration.
    """
    notes: list[str] = []

    def text_of(name: str) -> str:
        text = contents.get(os.path.realpath(name))
        return _text(Path(name), errors) if text is None else text

    texts = {str(path): text_of(str(path))}

    def from_disk(pattern: str) -> list[tuple[str, str]]:
        names = sorted(glob.glob(pattern))
        if not names and not glob.has_magic(pattern):
            notes.append(f"{printable(pattern)} is included, but does not exist.")
        texts.update((name, text_of(name)) for name in names)
        return [(name, texts[name]) for name in names]

    include = _beside(Path(os.path.abspath(path)).parent, from_disk)
    root = Directive("", [], str(path), _parsed((str(path), texts[str(path)]), include, 0))
    return Reading(root, None, tuple(notes), texts)


def parsed(text: str, name: str = "nginx.conf") -> Directive:
    """Return the directives of a text without includes."""
    return Directive("", [], name, _parsed((name, text), lambda _: [], 0))


def ends_in_comment(line: str) -> bool:
    """Return whether the end of a line is a comment, so that nothing may follow it on that line."""
    return any(match[0].startswith("#") for match in _TOKEN.finditer(line.rstrip("\r\n")))


def _dump_of_nginx(path: Path) -> tuple[list[tuple[str, str]], str | None]:
    """Return (name, text) of each file nginx reads, ``path`` first; or none, and the reason."""
    _text(path)  # a missing file is the user's error: stop
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
        message = _EMERG.sub("", lines[-1]) if lines else "without a reason"
        return [], f"nginx refuses it ({printable(message, 500)})"
    parts = _DUMPED.split(done.stdout.decode("utf-8", "replace"))[1:]
    return list(zip(parts[::2], parts[1::2], strict=True)), None


def _matches(name: str, pattern: str) -> bool:
    """Match a path as a shell does: ``*`` matches within one folder."""
    return name.count("/") == pattern.count("/") and fnmatch(name, pattern)


def _beside(folder: Path, files_of: Include) -> Include:
    """Return includes relative to the folder of the first file (of a link, not of its target), wherever they are."""
    return lambda pattern: files_of(os.path.join(folder, pattern))  # unnormalised, as nginx prints the names


def _text(path: Path, errors: str = "replace") -> str:
    try:
        return path.read_bytes().decode("utf-8", errors)
    except OSError as error:
        raise CaptureError(f"{path}: cannot be read ({error.strerror})") from None


def _parsed(source: tuple[str, str], include: Include, depth: int) -> list[Directive]:
    if depth > _DEEPEST:
        raise CaptureError(f"{printable(source[0])}: includes are nested more than {_DEEPEST} deep")
    return _Parser(*source, include, depth).directives()


class _Parser:
    """The parser of one file."""

    def __init__(self, name: str, text: str, include: Include, depth: int) -> None:
        self._name, self._text, self._include, self._depth = name, text, include, depth
        self._at, self._line, self._begun, self._first = 0, 1, 1, 0
        self._words: list[str] = []
        self._open: list[list[Directive]] = [[]]
        self._blocks: list[Directive] = []

    def directives(self) -> list[Directive]:
        """Return the directives of the file and of its includes."""
        while self._at < len(self._text):
            match = _TOKEN.match(self._text, self._at)
            if match is None:
                raise self._error("not an nginx configuration")
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
        """Finish a directive that was read up to its ``;`` or ``{``."""
        directive = Directive(self._words[0], self._words[1:], f"{self._name}:{self._begun}")
        directive.place = Place(self._name, self._begun, self._first, self._at, self._indent())
        directive.close = self._at
        directive.source = self._text[self._first : self._at]
        self._words = []
        if mark == ";" and directive.name == "include" and directive.args:
            files = self._include(directive.args[0])
            if not files:  # kept: the caller may know its contents
                self._open[-1].append(directive)
            for each in files:
                included = _parsed(each, self._include, self._depth + 1)
                for inner in included:
                    inner.via, inner.by = directive, inner.by or directive
                self._open[-1].extend(included)
            return
        self._open[-1].append(directive)
        if mark == "{" and directive.name.endswith("_by_lua_block"):
            self._at = directive.close = _end_of_lua(self._text, self._at)
        elif mark == "{":
            if len(self._open) > _DEEPEST_BLOCK:
                raise self._error(f"blocks are nested more than {_DEEPEST_BLOCK} deep")
            self._open.append(directive.block)
            self._blocks.append(directive)

    def _indent(self) -> str:
        begin = self._text.rfind("\n", 0, self._first) + 1
        line = self._text[begin : self._first]
        return line[: len(line) - len(line.lstrip())]

    def _error(self, reason: str) -> CaptureError:
        return CaptureError(f"{printable(self._name)}:{self._line}: {reason}")


def _end_of_lua(text: str, begin: int) -> int:
    """Return the position behind the brace that closes a block of Lua."""
    depth = 1
    for match in _LUA.finditer(text, begin):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0:
            return match.end()
    return len(text)
