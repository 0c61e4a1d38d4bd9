"""The store's schema: numbered SQL files, applied once each, in order, forward only."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Template

from sojourn.model.dsn import Dsn, parse
from sojourn.model.errors import SojournError
from sojourn.store.client import Store, connect, plainly, rows

# In a wheel the files lie beside this module, in a checkout where the collector has them.
_PACKAGED = Path(__file__).with_name("schema")
_CHECKOUT = Path(__file__).parents[3] / "collector" / "clickhouse"

# Tables that grow with the traffic, with the column of a row's age. Rollups are kept.
EXPIRING = {
    "requests": "time",
    "spans": "start",
    "dead_letters": "time",
    "listen_queue": "time",
    "pipeline_metrics": "time",
    "lines_received": "minute",
    "line_runs": "arrived",
    "touched_minutes": "minute",
}


@dataclass(frozen=True)
class Migration:
    """One file of the schema.

    Attributes:
        name: the file's name without its ending: ``010_requests``.
        text: what it holds, placeholders included.
    """

    name: str
    text: str

    @property
    def version(self) -> int:
        """The number its name begins with."""
        return int(self.name.split("_")[0])

    @property
    def checksum(self) -> str:
        """SHA-256 of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def statements(self, cluster: str | None = None) -> list[str]:
        """Return its statements, for one machine or for a cluster of this name."""
        return statements(substituted(self.text, cluster))


def schema_folder() -> Path:
    """Return the folder of the SQL files."""
    return _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT


def migrations(cluster: str | None = None) -> list[Migration]:
    """Return all files of the schema in the order of application; those of a cluster only for a cluster."""
    folder = schema_folder()
    files = [*folder.glob("[0-9]*.sql"), *((folder / "cluster").glob("[0-9]*.sql") if cluster else ())]
    return [Migration(file.stem, file.read_text(encoding="utf-8")) for file in sorted(files, key=lambda f: f.name)]


def substituted(text: str, cluster: str | None = None, **others: str) -> str:
    """Return ``text`` with its placeholders replaced, for one machine or for a cluster of this name."""
    name = "'" + cluster.replace("\\", "\\\\").replace("'", "\\'") + "'" if cluster else ""
    return Template(text).substitute(
        local="_local" if cluster else "",
        on_cluster=f"ON CLUSTER {name}" if cluster else "",
        replicated="Replicated" if cluster else "",
        cluster=name,
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


def init(dsn: str | Dsn, *, keep_days: int | None = None, cluster: str | None = None) -> list[str]:
    """Make a store, or bring it up to date; does nothing where nothing is to be done.

    Every statement can be repeated, so what was interrupted is finished by doing it again.

    Args:
        dsn: see ``sojourn.store.connect``.
        keep_days: delete rows of requests and spans after this many days; 0: keep them without a limit; None: leave the
            limit unchanged (a new store has none).
        cluster: create the tables on all machines of this cluster, replicated and distributed.

    Returns:
        The names of the files applied.

    Raises:
        SojournError: the store cannot be opened, a file applied earlier has changed since, or a statement failed.
    """
    address = parse(dsn) if isinstance(dsn, str) else dsn
    if keep_days is not None and not 0 <= keep_days <= 36500:
        raise SojournError(f"--keep {keep_days}: give 0 to 36500 days (0: no limit)")
    if cluster and address.embedded:
        raise SojournError(f"{address}: --cluster needs a server; the embedded engine has no clusters")
    _make_database(address, cluster)
    done = []
    with connect(address) as store:
        known = applied(store)
        for migration in migrations(cluster):
            checksum = known.get(migration.name)
            if checksum == migration.checksum:
                continue
            if checksum is not None:
                raise SojournError(
                    f"{store.dsn}: {migration.name}.sql has changed since it was applied to this store. The schema "
                    "grows by new files only: restore that one, or begin a new store"
                )
            with plainly(store, f"{migration.name}.sql"):
                for statement in migration.statements(cluster):
                    store.client.command(statement)
                store.client.insert(
                    "schema_migrations",
                    [[migration.version, migration.name, migration.checksum]],
                    column_names=["version", "name", "checksum"],
                )
            done.append(migration.name)
        if keep_days is not None:
            _keep(store, keep_days, cluster)
    return done


def _make_database(address: Dsn, cluster: str | None) -> None:
    if address.embedded:
        try:
            Path(address.path).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SojournError(f"{address}: cannot be made ({error.strerror})") from None
    with connect(address, database="default") as store, plainly(store, "making the database"):
        existing = rows(store, "SELECT 1 FROM system.databases WHERE name = {name:String}", {"name": address.database})
        if not existing:
            store.client.command(
                substituted(f"CREATE DATABASE IF NOT EXISTS {address.database} ${{on_cluster}}", cluster)
            )


def applied(store: Store) -> dict[str, str]:
    """Return the files that a store has applied, and their checksums; none for a store without a schema."""
    with plainly(store, "reading which files it has seen"):
        if not rows(store, "EXISTS TABLE schema_migrations")[0][0]:
            return {}
        applied = rows(store, "SELECT name, toString(checksum) FROM schema_migrations FINAL")
    return dict(applied)


def _keep(store: Store, days: int, cluster: str | None) -> None:
    for table, column in EXPIRING.items():
        change = f"MODIFY TTL toDateTime({column}) + INTERVAL {days} DAY" if days else "REMOVE TTL"
        local = substituted(f"{table}${{local}}", cluster)
        named = (
            "SELECT create_table_query FROM system.tables WHERE database = currentDatabase() AND name = {name:String}"
        )
        with plainly(store, f"how long {table} keeps its rows"):
            ((created,),) = rows(store, named, {"name": local})
            if days or "TTL " in created:
                store.client.command(substituted(f"ALTER TABLE {local} ${{on_cluster}} {change}", cluster))
    with plainly(store, "which minutes are rolled up"):
        store.client.command(_minutes_kept(days, cluster))


def _minutes_kept(days: int, cluster: str | None) -> str:
    """Return the view of the minutes that may be computed, for that many days: older minutes lack rows."""
    create = "CREATE VIEW IF NOT EXISTS minutes_known"
    view = next(s for m in migrations(cluster) for s in m.statements(cluster) if s.startswith(create))
    if days:
        view = view.replace("toDateTime(0)", f"now() - INTERVAL {days} DAY + INTERVAL 1 MINUTE", 1)
    return view.replace("CREATE VIEW IF NOT EXISTS", "CREATE OR REPLACE VIEW")
