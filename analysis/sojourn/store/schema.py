"""The texts of the schema: one file per table and view, with placeholders for what stands once.

``collector/clickhouse/`` has them. A placeholder is a constant of the model, the text of a file in ``parts/``, or steps
of ``split/`` as common table expressions. What a file becomes on one machine and on a cluster differs in three words:
``${local}``, ``${on_cluster}`` and ``${replicated}``.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from sojourn.model.components import (
    CLIENT_GONE,
    CLIENT_STATUSES,
    GIVEN_UP_STATUSES,
    IMPOSSIBLE,
    LATE_STEPS,
    PARTS,
    SERVER_ERROR,
    STAMP_TICK,
    SWITCHING_PROTOCOLS,
    TIMED_OUT,
    failed_sql,
)
from sojourn.model.frame import LOST_TIMES
from sojourn.readers.record import ROUTE_PART
from sojourn.store.waits import WAITS

# In a wheel the files lie beside this module, in a checkout where the collector has them.
_PACKAGED = Path(__file__).with_name("schema")
_CHECKOUT = Path(__file__).parents[3] / "collector" / "clickhouse"

# What is applied, in this order. Tables exist once; the objects of the others hold no data, and are created again when
# their text changes.
TABLES, INCOMING, VIEWS, UPGRADES = "tables", "incoming", "views", "upgrades"
# The steps from rows to their components. ``reported`` and ``clocked`` are one of several files each.
STEPS = ("chosen", "reported", "facts", "clocked", "timed", "queued", "held", "split")
# What is '' in the store is NULL for an analysis, and '' in a view.
NULL_TEXT, SAME_TEXT = "(x) -> nullIf(x, '') AS text_of", "(x) -> x AS text_of"
# A column that makes each INSERT into a table of lines fail. rand() and no constant: a constant is computed by CREATE.
GUARD_COLUMN = "schema_guard"
TRY_AGAIN = "the schema is being updated: send this again"
GUARD = f"{GUARD_COLUMN} UInt8 MATERIALIZED throwIf(rand() >= 0, '{TRY_AGAIN}')"
# A table or view with this line has a Distributed table under its plain name on a cluster.
_DISTRIBUTED = re.compile(r"^-- Distributed(?: by (.+))?\.$", re.MULTILINE)
_OBJECT = re.compile(
    r"CREATE (?:OR REPLACE )?(TABLE|VIEW|MATERIALIZED VIEW)(?: IF NOT EXISTS)? (\w+)(\$\{local\})?(?= )"
)


@dataclass(frozen=True)
class Object:
    """A table or view that a file creates.

    Attributes:
        kind: ``TABLE``, ``VIEW`` or ``MATERIALIZED VIEW``.
        name: its name, with ``${local}`` where it has one on each machine of a cluster.
    """

    kind: str
    name: str


@dataclass(frozen=True)
class SchemaFile:
    """One file of the schema.

    Attributes:
        name: folder and name, without the ending: ``views/requests_split``.
        text: what it holds, with the texts of its placeholders; those of a cluster and of retention are still in it.
    """

    name: str
    text: str

    @property
    def folder(self) -> str:
        """``tables``, ``incoming``, ``views`` or ``upgrades``."""
        return self.name.split("/")[0]

    @functools.cached_property
    def objects(self) -> tuple[Object, ...]:
        """What it creates, in order."""
        return tuple(Object(kind, name + local) for kind, name, local in _OBJECT.findall(self.text))

    @functools.cached_property
    def words(self) -> frozenset[str]:
        """The words of its statements, among them the names of all objects that it uses."""
        text = ";\n".join(statements(self.text))
        return frozenset(word + local for word, local in re.findall(r"\b(\w+)(\$\{local\})?", text))

    def distributed(self) -> str | None:
        """Return the arguments of the Distributed engine after the name of the table; None: it is not distributed."""
        line = _DISTRIBUTED.search(self.text)
        return None if line is None else f", {line[1]}" if line[1] else ""

    def statements(
        self, cluster: str | None = None, retained_since: str = "toDateTime(0)", *, guarded: bool = False
    ) -> list[str]:
        """Return its statements, for one machine or for a cluster of this name.

        Args:
            cluster: its name; None: one machine.
            retained_since: SQL for the first instant whose rows have not expired.
            guarded: a table that others write into refuses INSERTs from its creation on: see ``GUARD_COLUMN``.
        """
        return statements(substituted(self.text, cluster, retained_since, guard=f",\n    {GUARD}" if guarded else ""))


def schema_folder() -> Path:
    """Return the folder of the SQL files."""
    return _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT


@functools.cache
def text_of(name: str) -> str:
    """Return the text of ``<name>.sql`` in the folder of the schema."""
    return (schema_folder() / f"{name}.sql").read_text(encoding="utf-8").strip()


@functools.cache
def schema_files() -> tuple[SchemaFile, ...]:
    """Return all files: tables, then what parses lines, then views, each after those that it reads."""
    return (*_files(TABLES), *_files(UPGRADES), *_in_order([*_files(INCOMING), *_files(VIEWS)]))


def _files(folder: str) -> list[SchemaFile]:
    paths = sorted((schema_folder() / folder).glob("*.sql"))
    return [SchemaFile(f"{folder}/{path.stem}", _filled(path.read_text(encoding="utf-8"))) for path in paths]


def _in_order(files: Sequence[SchemaFile]) -> Iterator[SchemaFile]:
    left = list(files)
    while left:
        pending = {each.name for file in left for each in file.objects}
        ready = [file for file in left if not (file.words & pending) - {each.name for each in file.objects}]
        assert ready, f"a circle among {[file.name for file in left]}"  # noqa: S101 - the files are ours
        yield from ready
        left = [file for file in left if file not in ready]


def checksums() -> dict[str, str]:
    """Return the SHA-256 of every file by its name; that of a view depends on all that it reads."""
    return _checksums(schema_files())


@functools.cache
def _checksums(files: tuple[SchemaFile, ...]) -> dict[str, str]:
    sums: dict[str, str] = {}
    makers: dict[str, str] = {}
    for file in files:
        read = sorted({sums[makers[name]] for name in file.words if makers.get(name, file.name) != file.name})
        below = [] if file.folder == UPGRADES else read
        sums[file.name] = hashlib.sha256("\n".join([file.text, *below]).encode()).hexdigest()
        makers |= {each.name: file.name for each in file.objects}
    return sums


def _filled(text: str) -> str:
    """Return a text of the schema with its placeholders replaced, but those of a cluster and of retention."""
    while True:
        template = Template(text)
        names = set(template.get_identifiers()) - _LATER
        if not names:
            return text
        text = template.safe_substitute({name: _value(name) for name in names})


_LATER = {"local", "on_cluster", "replicated", "replica_guard", "kept_since", "guard"}


def _value(name: str) -> str:
    if name in constants():
        return constants()[name]
    of_view = {"text_of": SAME_TEXT, "requests": "requests${local}", "conditions": "1"}
    if name == "steps_by_hour":
        files = {**dict.fromkeys(STEPS), "reported": "reported_without_spans", "clocked": "clocked_by_hour"}
        return common_tables(files, **of_view, final="FINAL")
    if name == "facts_of_rows":  # of one INSERT
        return common_tables({"chosen": None, "reported": "reported_without_spans", "facts": None}, **of_view, final="")
    return text_of(f"parts/{name}")


@functools.cache
def constants() -> dict[str, str]:
    """Return what stands once in the model, as SQL: statuses, limits, patterns, and the columns of components."""
    return {
        "tick": str(STAMP_TICK),
        "impossible": str(IMPOSSIBLE),
        "late_steps": str(LATE_STEPS),
        "client_statuses": str(CLIENT_STATUSES),
        "given_up": str(GIVEN_UP_STATUSES),
        "timed_out": str(TIMED_OUT),
        "abandoned": str(CLIENT_GONE),
        "switching_protocols": str(SWITCHING_PROTOCOLS),
        "failed": failed_sql("status"),
        "server_errors": f"BETWEEN {SERVER_ERROR} AND {SERVER_ERROR + 99}",
        "lost_times": "(" + " OR ".join(f"ifNull(position(dropped, '{each}') > 0, false)" for each in LOST_TIMES) + ")",
        "route_part": ROUTE_PART,
        **_parts_of_a_response(),
    }


def _parts_of_a_response() -> dict[str, str]:
    """Return the columns of the rollup for the parts of a response, and the expressions that fill them."""
    unknown_wait = "proxy_queue + ifNull(connect, 0)"
    return {
        "part_seconds": "\n    ".join(f"{part}_seconds Float64 CODEC(ZSTD(1))," for part in PARTS),
        "parts_by_response": "\n    ".join(f"{part}_by_response Map(Int16, Float64) CODEC(ZSTD(1))," for part in PARTS),
        "part_values": "\n            ".join(
            f"ifNull({column}, {unknown_wait if part == 'queueing' else 0}) AS of_{part},"
            for part, column in PARTS.items()
        ),
        "part_seconds_sums": "\n        ".join(f"sumIf(of_{part}, served) AS {part}_seconds," for part in PARTS),
        "wait_sums": "\n        ".join(f"sumIf({value}, served) AS waits_{name}," for name, value in WAITS.items()),
        "part_by_response_sums": "\n        ".join(
            f"sumMapIf(map(bucket, of_{part}), served) AS {part}_by_response," for part in PARTS
        ),
    }


def common_tables(files: Mapping[str, str | None], **values: str) -> str:
    """Return steps of ``split/`` as common table expressions.

    Args:
        files: step -> name of its file; None: as the step.
        values: of the placeholders beside ``constants``.
    """
    texts = {step: Template(text_of(f"split/{file or step}")) for step, file in files.items()}
    replacements = constants() | values
    return ", ".join(f"{step} AS (\n{text.safe_substitute(replacements)}\n)" for step, text in texts.items())


_COLUMNS = re.compile(r"(?<=\nSELECT\n)    r\.time AS time,\n.*?(?=\nFROM )", re.DOTALL)  # of split/chosen.sql
_NAME = re.compile(r" AS (\w+),?$")
_COMMENT = re.compile(r"--[^\n]*")
ALWAYS = "time"
"""A column of each row, which remains where nothing else is used."""


def narrowed(statement: str) -> str:
    """Return a statement in which the canonical rows (``split/chosen``) have only columns that the rest of it names.

    A column that nothing uses is not read, but the engine resolves its expression in each step that selects all: with
    seventy of them that takes longer than to answer a question about few rows.
    """
    columns = _COLUMNS.search(statement)
    if columns is None:
        return statement
    rest = f"{statement[: columns.start()]}{statement[columns.end() :]}"
    used = {ALWAYS, *re.findall(r"\w+", _COMMENT.sub("", rest))}
    lines = [line for line in columns[0].splitlines() if (name := _NAME.search(line)) and name[1] in used]
    text = ",\n".join(line.rstrip(",") for line in lines)
    return f"{statement[: columns.start()]}{text}{statement[columns.end() :]}"


def substituted(
    text: str, cluster: str | None = None, retained_since: str = "toDateTime(0)", *, guard: str = "", **others: str
) -> str:
    """Return ``text`` with its placeholders replaced, for one machine or for a cluster of this name."""
    name = "'" + cluster.replace("\\", "\\\\").replace("'", "\\'") + "'" if cluster else ""
    replica = "database = currentDatabase() AND table = 'requests_local'"
    lag = f"SELECT max(absolute_delay) FROM system.replicas WHERE {replica}"  # noqa: S608 - a constant
    return Template(text).substitute(
        local="_local" if cluster else "",
        on_cluster=f"ON CLUSTER {name}" if cluster else "",
        replicated="Replicated" if cluster else "",
        cluster=name,
        replica_guard=f" AND ({lag}) < 30" if cluster else "",
        kept_since=retained_since,
        guard=guard,
        **others,
    )


def statements(text: str) -> list[str]:
    """Return the statements of an SQL text, without comments. A semicolon or dashes inside quotes are text."""
    return [s for s in ("".join(parts).strip() for parts in _split(text)) if s]


def _split(text: str) -> Iterator[list[str]]:
    parts: list[str] = []
    for piece in re.findall(r"--[^\n]*|'(?:[^'\\]|\\.|'')*'|`[^`]*`|;|[^-'`;]+|.", text, flags=re.DOTALL):
        if piece == ";":
            yield parts
            parts = []
        elif not piece.startswith("--"):
            parts.append(piece)
    yield parts
