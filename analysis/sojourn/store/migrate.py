"""Create the schema of a store, or bring it up to date.

Tables are created once, and changed by the files of ``upgrades/``. All other objects hold no data: they are created
again when their text changes, or the text of what they read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sojourn.model.dsn import Dsn, parse
from sojourn.model.errors import SojournError
from sojourn.store.client import Store, connect, plainly, rows
from sojourn.store.lock import locked
from sojourn.store.schema import (
    GUARD,
    GUARD_COLUMN,
    INCOMING,
    TABLES,
    UPGRADES,
    VIEWS,
    SchemaFile,
    checksums,
    schema_files,
    substituted,
)
from sojourn.store.schema_state import STATE, applied

# Tables that grow with the traffic, with the column of a row's age. Rollups are kept.
EXPIRING = {
    "requests": "time",
    "spans": "start",
    "dead_letters": "time",
    "listen_queue": "time",
    "pipeline_metrics": "time",
    "lines_received": "minute",
    "line_runs": "arrived",
    "log_files": "slot",
    "records_received": "hour",
    "touched_minutes": "minute",
    "spans_minute": "minute",
}
# Tables into which others write. While their views are missing, an INSERT fails, and is sent again later.
WRITTEN = (
    "incoming", "incoming_spans", "incoming_app_log", "incoming_listen_queue", "incoming_log_files",
    "incoming_pipeline_metrics", "incoming_rows",
)  # fmt: skip


def init(dsn: str | Dsn, *, keep_days: int | None = None, cluster: str | None = None) -> list[str]:
    """Create the schema of a store, or bring it up to date; does nothing where nothing is to be done.

    Every statement can be repeated, so what was interrupted is completed by running it again. On a server, one init at
    a time changes a database; another one waits.

    Args:
        dsn: see ``sojourn.store.connect``.
        keep_days: delete rows of requests and spans after this many days; 0: keep them without a limit; None: leave the
            limit unchanged (a new store has none).
        cluster: create the tables on all machines of this cluster, replicated and distributed.

    Returns:
        The names of the files applied.

    Raises:
        SojournError: the store cannot be opened, is of a later version or no store, or a statement failed.
    """
    address = parse(dsn) if isinstance(dsn, str) else dsn
    if keep_days is not None and not 0 <= keep_days <= 36500:
        raise SojournError(f"--keep {keep_days}: give 0 to 36500 days (0: no limit)")
    if cluster and address.embedded:
        raise SojournError(f"{address}: --cluster needs a server; the embedded engine has no clusters")
    _create_database(address, cluster)
    with connect(address) as store, locked(store, cluster) as alive:
        done = _Update(store, cluster, alive).run()
        if keep_days is not None:
            _keep(store, keep_days, cluster)
    return done


class _Update:
    """Applies the files of the schema that a store does not have, or has with another text."""

    def __init__(self, store: Store, cluster: str | None, alive: Callable[[], None]) -> None:
        self._store = store
        self._alive = alive
        self._cluster = cluster
        self._sums = checksums()
        self._applied = applied(store)
        self._retained_since = _retained_since(_retention_days(store, cluster))

    def run(self) -> list[str]:
        self._refuse_others()
        files = schema_files()
        due = [file for file in files if self._applied.get(file.name) != self._sums[file.name]]
        tables = [file for file in due if file.folder == TABLES]
        again = [file for file in due if file.folder in (INCOMING, VIEWS)]
        # First the table in which the others are noted.
        new = sorted((file for file in tables if file.name not in self._applied), key=lambda file: file.name != STATE)
        self._each(new, self._apply, self._twin)
        upgrades = [file for file in due if file.folder == UPGRADES]
        self._each(upgrades, self._refuse_changed, self._apply)
        # Of a table that exists, the upgrades have changed the columns, and its Distributed table copies them.
        existing = [file for file in tables if file.name in self._applied]
        self._each(existing, self._twin)
        with self._writers_refused(again):
            self._drop(file for file in reversed(again) if file.name in self._applied)
            self._each(again, self._apply, self._twin)
        return [file.name for file in (*new, *upgrades, *existing, *again)]

    def _each(self, files: Sequence[SchemaFile], *steps: Callable[[SchemaFile], None]) -> None:
        """Take steps with each file, and note that it is applied."""
        for file in files:
            for step in steps:
                step(file)
            self._note(file)

    def _note(self, file: SchemaFile) -> None:
        with plainly(self._store, f"noting {file.name}.sql"):
            self._store.client.insert(
                "schema_state", [[file.name, self._sums[file.name]]], column_names=["name", "checksum"]
            )
            self._alive()

    def _refuse_others(self) -> None:
        """Refuse a database of a later version, and one with tables that are not Sojourn's."""
        later = sorted(self._applied.keys() - self._sums.keys())
        if later:
            raise SojournError(f"{self._store.dsn}: a later version has applied {', '.join(later)}: use that version")
        if not self._applied:
            with plainly(self._store, "reading which tables there are"):
                names = (
                    "SELECT count() FROM system.tables WHERE database = currentDatabase() AND name NOT LIKE 'schema_%'"
                )
                if rows(self._store, names)[0][0]:
                    raise SojournError(
                        f"{self._store.dsn}: the database has tables, and no schema of this version; name another "
                        "database, or another folder"
                    )

    def _refuse_changed(self, upgrade: SchemaFile) -> None:
        if upgrade.name in self._applied:
            raise SojournError(
                f"{self._store.dsn}: {upgrade.name}.sql has changed since it was applied to this store: restore it"
            )

    def _apply(self, file: SchemaFile) -> None:
        with plainly(self._store, f"{file.name}.sql"):
            for statement in file.statements(self._cluster, self._retained_since, guarded=True):
                self._store.client.command(statement)

    def _twin(self, file: SchemaFile) -> None:
        """On a cluster, give a table its Distributed table under the plain name."""
        with plainly(self._store, f"{file.name}.sql on the cluster"):
            for statement in distributed_statements(file, self._cluster, again=file.name in self._applied):
                self._store.client.command(statement)

    def _drop(self, files: Iterator[SchemaFile]) -> None:
        """Drop what has no data and is created again; ordinary views are replaced in place."""
        for file in files:
            for each in reversed(file.objects):
                if each.kind != "VIEW":
                    self._command(f"DROP {each.kind.split()[-1]} IF EXISTS {each.name} ${{on_cluster}} SYNC")

    @contextmanager
    def _writers_refused(self, again: Sequence[SchemaFile]) -> Iterator[None]:
        """Let INSERTs fail while materialized views are missing: a line that came then would be lost.

        A new table is created with the column that refuses them; one that exists gets it. Shippers send again what the
        store refused (HTTP status 500). An init that was interrupted leaves the refusal, and the next one removes it.
        """
        views = any(each.kind == "MATERIALIZED VIEW" for file in again for each in file.objects)
        if views and any(file.name in self._applied for file in again):
            for table in WRITTEN:
                for name in (table, f"{table}_local") if self._cluster else (table,):
                    self._command(f"ALTER TABLE {name} ${{on_cluster}} ADD COLUMN IF NOT EXISTS {GUARD}")
        yield
        guarded = "SELECT table FROM system.columns WHERE database = currentDatabase() AND name = {name:String}"
        with plainly(self._store, "updating the schema"):
            for (table,) in rows(self._store, guarded, {"name": GUARD_COLUMN}):
                self._command(f"ALTER TABLE {table} ${{on_cluster}} DROP COLUMN IF EXISTS {GUARD_COLUMN}")

    def _command(self, text: str) -> None:
        with plainly(self._store, "updating the schema"):
            self._store.client.command(substituted(text, self._cluster))


def distributed_statements(file: SchemaFile, cluster: str | None, *, again: bool = False) -> list[str]:
    """Return the statement for the Distributed table of a file under its plain name; none on one machine.

    Args:
        file: of a table or view, with a line ``-- Distributed.`` or ``-- Distributed by KEY.``
        cluster: its name.
        again: replace the one that exists; it holds no data.
    """
    arguments = file.distributed()
    if cluster is None or arguments is None:
        return []
    (table,) = file.objects
    name = table.name.removesuffix("${local}")
    create = "CREATE OR REPLACE TABLE" if again else "CREATE TABLE IF NOT EXISTS"
    text = (
        f"{create} {name} ${{on_cluster}} AS {name}_local "
        f"ENGINE = Distributed(${{cluster}}, currentDatabase(), {name}_local{arguments})"
    )
    return [substituted(text, cluster)]


def _create_database(address: Dsn, cluster: str | None) -> None:
    if address.embedded:
        try:
            Path(address.path).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SojournError(f"{address}: cannot be made ({error.strerror})") from None
    with connect(address, database="default") as store, plainly(store, "creating the database"):
        existing = rows(store, "SELECT 1 FROM system.databases WHERE name = {name:String}", {"name": address.database})
        if not existing:
            store.client.command(
                substituted(f"CREATE DATABASE IF NOT EXISTS {address.database} ${{on_cluster}}", cluster)
            )


def _definition(store: Store, table: str) -> str:
    sql = "SELECT create_table_query FROM system.tables WHERE database = currentDatabase() AND name = {name:String}"
    with plainly(store, f"reading the definition of {table}"):
        definitions = rows(store, sql, {"name": table})
    return str(definitions[0][0]) if definitions else ""


def _retention_days(store: Store, cluster: str | None) -> int:
    """Return after how many days requests are removed; 0: never."""
    limit = re.search(r"TTL .*?toIntervalDay\((\d+)\)", _definition(store, substituted("requests${local}", cluster)))
    return int(limit[1]) if limit else 0


def _retained_since(days: int) -> str:
    """Return SQL for the first minute that may be computed: older minutes lack rows."""
    return f"now() - INTERVAL {days} DAY + INTERVAL 1 MINUTE" if days else "toDateTime(0)"


def _keep(store: Store, days: int, cluster: str | None) -> None:
    for table, column in EXPIRING.items():
        change = f"MODIFY TTL toDateTime({column}) + INTERVAL {days} DAY" if days else "REMOVE TTL"
        local = substituted(f"{table}${{local}}", cluster)
        definition = _definition(store, local)
        with plainly(store, f"how long {table} keeps its rows"):
            if days or "TTL " in definition:
                store.client.command(substituted(f"ALTER TABLE {local} ${{on_cluster}} {change}", cluster))
    for file in schema_files():
        if "${kept_since}" in file.text:
            with plainly(store, f"how long rows are kept, in {file.name}.sql"):
                for statement in file.statements(cluster, _retained_since(days)):
                    store.client.command(statement)
