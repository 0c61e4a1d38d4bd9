"""The schema: every statement runs, twice, on one machine, and parses for a cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from string import Template
from typing import Any

import pytest
from clickhouse_connect.driver.exceptions import ClickHouseError
from sojourn.model.components import CLIENT_STATUSES, COMPONENTS, PROXY_STATUSES, SWITCHING_PROTOCOLS
from sojourn.model.errors import SojournError
from sojourn.store import connect, init, load, migrate, schema
from sojourn.store import statements as statements_module
from sojourn.store.migrate import EXPIRING, distributed_statements
from sojourn.store.roles import role_statements, user_statements
from sojourn.store.schema import TABLES, SchemaFile, checksums, constants, schema_files, schema_folder, statements
from store_support import ask, one, record, tell, write_log


def test_every_file_can_be_applied_again(store_dsn: str) -> None:
    """As after an interruption: before the next file is noted."""
    for file in schema_files():
        assert file.statements()
        tell(store_dsn, *file.statements())


def test_init_again_does_nothing(store_dsn: str) -> None:
    assert init(store_dsn) == []
    applied = ask(store_dsn, "SELECT name, toString(checksum) FROM schema_state FINAL ORDER BY name")
    assert applied == sorted(checksums().items())


def changed(monkeypatch: pytest.MonkeyPatch, *, more: Sequence[SchemaFile] = (), **texts: Callable[[str], str]) -> None:
    """Change the texts of files (name without folder), and add some."""
    files = tuple(
        SchemaFile(file.name, texts.pop(file.name.split("/")[1], lambda text: text)(file.text))
        for file in schema_files()
    )
    assert not texts
    for module in (schema, migrate):
        monkeypatch.setattr(module, "schema_files", lambda: (*files, *more))


def test_what_reads_a_view_that_changed_is_created_again_too(store_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changed(monkeypatch, clock_offsets=lambda text: text.replace("    n AS requests", "    n AS requests, 7 AS more"))
    assert init(store_dsn) == [
        "views/clock_offsets", "views/requests_split", "views/rollup_due", "views/rollup_refresh",
    ]  # fmt: skip
    assert init(store_dsn) == []
    assert ask(store_dsn, "SELECT sum(more) FROM clock_offsets") == [(0,)]


def test_an_upgrade_is_applied_once_and_views_over_its_table_again(
    store_dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A column comes with an ALTER for the stores that there are, and with the table's own text for new ones."""
    load(store_dsn, write_log(tmp_path / "a.jsonl", record(1)))
    alter = "ALTER TABLE capacity${local} ${on_cluster} ADD COLUMN IF NOT EXISTS more UInt8 DEFAULT 7;"
    upgrade = SchemaFile("upgrades/0_2_0", alter)
    column = "    rate Float64 COMMENT"
    more = {"capacity": lambda text: text.replace(column, f"    more UInt8 DEFAULT 7,\n{column}")}
    with monkeypatch.context() as patch:
        changed(patch, more=[upgrade], **more)
        assert init(store_dsn) == ["upgrades/0_2_0", "tables/capacity"]
        assert init(store_dsn) == []
        tell(store_dsn, "INSERT INTO capacity (service, rate) VALUES ('a', 1)")
        assert one(store_dsn, "SELECT more FROM capacity") == 7
        assert one(store_dsn, "SELECT count() FROM requests") == 1
    changed(monkeypatch, more=[SchemaFile("upgrades/0_2_0", alter + " ")], **more)
    with pytest.raises(SojournError, match=r"upgrades/0_2_0\.sql has changed since it was applied"):
        init(store_dsn)


def test_no_line_is_lost_while_its_views_are_created_again(
    store_dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An INSERT in between fails, and the shipper sends it again."""
    changed(monkeypatch, lines=lambda text: text.replace("'missing_time'", "'time_is_missing'"))
    kind = migrate._Update
    apply, refused = kind._apply, []

    def meanwhile(self: Any, file: SchemaFile) -> None:
        if file.name == "incoming/lines":
            for table, columns in (("incoming", "(line) VALUES ('{}')"), ("incoming_rows", "(status) VALUES (200)")):
                with pytest.raises(ClickHouseError, match="send this again"):
                    self._store.client.command(f"INSERT INTO {table} {columns}")
                refused.append(table)
        apply(self, file)

    monkeypatch.setattr(kind, "_apply", meanwhile)
    assert init(store_dsn) == ["incoming/lines", "views/lines_received_of_lines"]
    assert refused == ["incoming", "incoming_rows"]
    tell(store_dsn, "INSERT INTO incoming (line) VALUES ('{}')")
    assert ask(store_dsn, "SELECT reason FROM dead_letters") == [("time_is_missing",)]
    assert one(store_dsn, "SELECT sum(lines) FROM lines_received") == 1
    # A row that was refused may be stored. Sent again, it is one row.
    tell(store_dsn, "INSERT INTO incoming_rows (status) VALUES (200)")
    assert one(store_dsn, "SELECT count() FROM requests FINAL") == 1


def test_writers_are_refused_until_an_update_that_broke_off_is_completed(
    store_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(monkeypatch, lines=lambda text: text.replace("'missing_time'", "'time_is_missing'"))
    with monkeypatch.context() as patch:
        patch.setattr(migrate._Update, "_note", lambda self, file: (_ for _ in ()).throw(SojournError("killed")))
        with pytest.raises(SojournError, match="killed"):
            init(store_dsn)
    with pytest.raises(ClickHouseError, match="send this again"):
        tell(store_dsn, "INSERT INTO incoming (line) VALUES ('{}')")
    assert init(store_dsn) == ["incoming/lines", "views/lines_received_of_lines"]
    tell(store_dsn, "INSERT INTO incoming (line) VALUES ('{}')")
    assert one(store_dsn, "SELECT sum(lines) FROM lines_received") == 1


@pytest.mark.parametrize("after", [5, *(pytest.param(after, marks=pytest.mark.thorough) for after in (0, 1, 25))])
def test_an_init_that_broke_off_is_completed_by_the_next(
    store_folder: Path, make_store: Callable[[], str], monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    dsn = make_store()
    database = dsn.split("=")[1]
    with connect(f"chdb://{store_folder}", database="default") as store:
        store.client.command(f"DROP DATABASE {database} SYNC")
        kind = type(store.client)
    command, count = kind.command, iter(range(1000))

    def broken(self: object, sql: str, *args: object, **named: object) -> object:
        if sql.startswith("CREATE") and next(count) > after:
            raise SojournError("killed")
        return command(self, sql, *args, **named)

    with monkeypatch.context() as patch:
        patch.setattr(kind, "command", broken)
        with pytest.raises(SojournError, match="killed"):
            init(dsn)
    assert init(dsn)
    assert init(dsn) == []
    assert one(dsn, "SELECT count() FROM system.tables WHERE database = currentDatabase()") > 15


def test_tables_of_others_are_left_alone(store_dsn: str) -> None:
    """A database without this schema: the tables of some other program, or of a version that was never published."""
    tell(store_dsn, "TRUNCATE TABLE schema_state")
    with pytest.raises(SojournError, match="the database has tables, and no schema of this version"):
        init(store_dsn)


def test_for_a_cluster_and_for_roles_it_parses(store_dsn: str) -> None:
    name = "it's"
    items = [s for file in schema_files() for s in (*file.statements(name), *distributed_statements(file, name))]
    for cluster in (None, name):
        items += role_statements("sojourn", cluster) + user_statements("sojourn_reader", "secret", cluster)
    with connect(store_dsn) as store:
        for statement in items:
            store.client.query(f"EXPLAIN AST {statement}")
    tables = [s for s in items if s.startswith("CREATE TABLE") and "ENGINE = Null" not in s]
    assert all(r"ON CLUSTER 'it\'s'" in s for s in tables)
    assert all("Replicated" in s or "Distributed('it" in s for s in tables)
    twins = {m[1] for s in tables if (m := re.match(r"CREATE TABLE IF NOT EXISTS (\w+) .* AS (\w+)_local", s))}
    stored = {f.objects[0].name.removesuffix("${local}") for f in schema_files() if f.folder == TABLES}
    assert twins == {*stored, "requests_split", "broken_parts"}


def test_texts_use_every_placeholder_and_part_and_no_other() -> None:
    texts = [*schema_folder().glob("*/*.sql")]
    used: set[str] = set()
    for file in texts:
        template = Template(file.read_text())
        assert template.is_valid(), file.name
        used.update(template.get_identifiers())
    parts = {file.stem for file in texts if file.parent.name == "parts"}
    assert parts <= used
    for file in schema_files():
        assert "${" not in "".join(file.statements()), file.name
    composed = {"steps_by_hour", "facts_of_rows", "text_of", "requests", "final", "conditions", "window"}
    placed = {"local", "on_cluster", "replicated", "replica_guard", "kept_since", "guard", "cluster"}
    of_roles = {"database", "user", "role", "hash", "salt"}
    of_statements = {"lost_times"}  # in the statements of the analysis alone
    assert used == parts | set(constants()) - of_statements | composed | placed - {"cluster"} | of_roles


NUMBERS = "|".join(str(each) for each in (SWITCHING_PROTOCOLS, *PROXY_STATUSES, *CLIENT_STATUSES))


def test_statuses_and_limits_stand_once() -> None:
    """No text of the store repeats what the model has, and none but the steps of the split computes a component."""
    texts = [*schema_folder().glob("*/*.sql"), *Path(statements_module.__file__).parent.glob("sql/*.sql")]
    assert len(texts) > 60
    component = rf"\bAS ({'|'.join([*COMPONENTS, 'queueing_delay'])})\b"
    for file in texts:
        text = "\n".join(statements(file.read_text()))
        assert not re.search(rf"status\b[^,\n]*\b({NUMBERS}|500|599)\b", text), file
        assert not re.search(r"\b0\.1\b(?!,)", text), file
        if file.parent.name not in ("split", "tables"):
            computed = [m for m in re.finditer(rf"([^\n]*){component}", text) if not re.search(PLAIN, m[0])]
            assert not computed, (file, computed)


def test_statuses_stand_once_in_python() -> None:
    """In the analysis and the dashboards; the model has them."""
    root = Path(__file__).parents[2]
    files = [*(root / "analysis/sojourn").rglob("*.py"), *(root / "dashboards/sojourn_dashboards").rglob("*.py")]
    repeated = [
        (file.name, line)
        for file in files
        if file.name != "components.py"
        for line in file.read_text(encoding="utf-8").splitlines()
        if re.search(rf"\bstatus\w*\W{{1,5}}(?:==|!=|>=|<|=|in|IN|NOT IN|is_in)\W{{1,3}}\(?({NUMBERS}|500|599)\b", line)
        and not line.lstrip().startswith(("#", "<", "-"))
    ]
    assert repeated == []


# Values that are taken over: of a span, of a column that has the name, or a sum.
PLAIN = r"(?:^\s*|SELECT )(?:\w+\.)?\w+ AS|seconds\(|us_|r\.|s\.|avg\(|sum|figures|JSON"


def test_statements_are_separated() -> None:
    text = "-- a; b\nSELECT ';--', `x;`, 'it''s', 'a\\';' -- c;\n; ;\nSELECT 1 - -1;"
    assert statements(text) == ["SELECT ';--', `x;`, 'it''s', 'a\\';'", "SELECT 1 - -1"]


def test_rows_are_kept_for_the_configured_time(store_dsn: str, tmp_path: Path) -> None:
    load(store_dsn, write_log(tmp_path / "a.jsonl", record(1), record(2)))
    tell(store_dsn, "OPTIMIZE TABLE requests FINAL")
    assert one(store_dsn, "SELECT count() FROM requests") == 2  # an old log must not vanish by itself
    init(store_dsn, keep_days=3)
    ttl = (
        "SELECT count() FROM system.tables WHERE database = currentDatabase() "
        "AND create_table_query LIKE '%TTL%toIntervalDay(3)%'"
    )
    assert one(store_dsn, ttl) == len(EXPIRING)
    tell(store_dsn, "OPTIMIZE TABLE requests FINAL")
    assert one(store_dsn, "SELECT count() FROM requests") == 0
    assert one(store_dsn, "SELECT sum(requests) FROM rollup_minute FINAL") == 2
    # One of them is delivered again: what is left of its minute must not take the place of what there was.
    assert load(store_dsn, write_log(tmp_path / "late.jsonl", record(1))).minutes == 0
    assert one(store_dsn, "SELECT sum(requests) FROM rollup_minute FINAL") == 2
    init(store_dsn, keep_days=0)
    assert load(store_dsn, write_log(tmp_path / "a.jsonl", record(1), record(2), record(3))).minutes == 1
    init(store_dsn, keep_days=0)
    assert one(store_dsn, ttl) == 0
    with pytest.raises(SojournError, match="0 to 36500 days"):
        init(store_dsn, keep_days=-1)


def test_rejects_cluster_with_the_embedded_engine(store_dsn: str) -> None:
    with pytest.raises(SojournError, match="has no clusters"):
        init(store_dsn, cluster="c")


def test_rollup_columns_match_the_table(store_dsn: str) -> None:
    """INSERT … SELECT * goes by position."""
    names = (
        "SELECT name, type FROM system.columns WHERE database = currentDatabase() AND table = '{}' ORDER BY position"
    )
    table, view = ask(store_dsn, names.format("rollup_minute")), ask(store_dsn, names.format("rollup_due"))
    assert [name for name, _ in view] == [name for name, _ in table]
    assert len(table) >= 35


def test_every_column_says_what_it_holds_or_says_it_by_its_name(store_dsn: str) -> None:
    """A duration has its unit in its name or comment."""
    result = ask(
        store_dsn,
        "SELECT table, name, comment FROM system.columns WHERE database = currentDatabase() "
        "AND table NOT IN ('requests_split', 'incoming_rows') AND type LIKE '%Decimal(18, 6)%' AND table NOT IN "
        "(SELECT name FROM system.tables WHERE database = currentDatabase() AND engine = 'MaterializedView')",
    )
    assert result
    assert [(t, n) for t, n, comment in result if not comment.startswith("s")] == []
