"""The schema: every statement runs, twice, on one machine, and parses for a cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from string import Template

import pytest
from sojourn.model.errors import SojournError
from sojourn.store import connect, init, load, migrate
from sojourn.store.migrate import EXPIRING, Migration, migrations, schema_folder, statements
from sojourn.store.roles import role_statements, user_statements
from store_support import ask, one, record, tell, write_log


def test_every_file_can_be_applied_again(make_store: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    """As after an interruption: before the next file is applied."""
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "migrations", lambda cluster: migrations()[:1])
        dsn = make_store()
    for migration in migrations():
        assert migration.statements()
        tell(dsn, *migration.statements(), *migration.statements())


def test_init_again_does_nothing(store_dsn: str) -> None:
    assert init(store_dsn) == []
    applied = ask(store_dsn, "SELECT version, name, toString(checksum) FROM schema_migrations FINAL ORDER BY name")
    assert applied == [(m.version, m.name, m.checksum) for m in migrations()]


def test_a_file_that_changed_is_refused(store_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = [Migration(m.name, m.text + ("\n-- more" if m.name == "020_spans" else "")) for m in migrations()]
    monkeypatch.setattr(migrate, "migrations", lambda cluster: changed)
    with pytest.raises(SojournError, match=r"020_spans\.sql has changed since it was applied"):
        init(store_dsn)


# Stores in use have applied these files and refuse them when a letter is changed, a comment's too: add a file instead.
PUBLISHED = {
    "000_schema_migrations": "f7b1506a2cb3bc8f",
    "001_schema_migrations": "66fa22be5f5f9c38",
    "010_requests": "1d3c9bd6bc1fce56",
    "020_spans": "52fe4992bc2ccdfd",
    "030_dead_letters": "00ccf785b7bdc8ca",
    "040_listen_queue": "989ec8b2437bd15d",
    "050_pipeline": "c63520c60bfd97a2",
    "060_rollup_minute": "80f2dc7580ea83f5",
    "065_replica_guard": "d0e8e7de2b9a09db",
    "070_rollup_refresh": "62c7f254bf24a1f8",
    "075_distributed": "dcf5816e858cd85e",
    "080_views": "ea4188d2d6df92d9",
    "090_blame": "529f7e2c7112c79b",
    "092_explained": "7970d54673043257",
    "095_explained_views": "98b7068102204c93",
    "096_line_runs": "6429a2fae2ae15db",
    "097_line_runs": "cd968188035b0d90",
    "098_reconciliation": "4ef0fa1ac774c892",
    "099_clock_bounds": "395640da02c7b34a",
    "100_clock_bounds": "985751abb67bc834",
    "101_stamp_first": "e71f09afe57ca8d5",
    "102_requests_split": "1ef6062cf6d7d298",
    "103_other_logs": "1b1b7427c29ad87f",
    "104_other_logs": "79ace96949994f39",
    "105_incoming": "0c0a168e2b178c98",
    "106_incoming_others": "29f7f7617aeb11d1",
    "107_incoming": "f16e4ffd6cad5917",
    "108_lines_received": "a758461a62c6388f",
    "109_lines_received": "3c1ffb483c8278d7",
    "110_line_runs_of_lines": "b6f519135cffd1f2",
    "111_instants": "b60af7f5fcd565c6",
    "112_trace": "6189f6a5968df631",
    "113_trace": "b2d85d9402813aa1",
    "114_wasted_work": "435578a917d3a643",
    "115_incoming_app_log": "073111918678842f",
    "116_incoming_app_log": "13570b6afde3e23c",
    "117_codecs": "3b896c1db21b3909",
    "118_held": "214e34012c32fb4b",
    "119_held": "f59096c9314a8e7a",
    "120_saturation": "e30e4cc668546bbc",
}


def test_no_published_file_has_changed() -> None:
    """A store that applied it would refuse to be brought up to date."""
    assert {m.name: m.checksum[:16] for m in migrations("a_cluster")} == PUBLISHED


def test_a_new_file_is_applied_alone(store_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    new = Migration(
        "990_more", "CREATE TABLE IF NOT EXISTS more${local} (x UInt8) ENGINE = ${replicated}MergeTree ORDER BY x;"
    )
    monkeypatch.setattr(migrate, "migrations", lambda cluster: [*migrations(), new])
    assert init(store_dsn) == ["990_more"]
    assert one(store_dsn, "EXISTS TABLE more") == 1


@pytest.mark.parametrize("after", [0, 1, 5, 12])
def test_an_init_that_broke_off_is_finished_by_the_next(
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


def test_for_a_cluster_and_for_roles_it_parses(store_dsn: str) -> None:
    items = [s for m in migrations("it's") for s in m.statements("it's")]
    for cluster in (None, "it's"):
        items += role_statements("sojourn", cluster) + user_statements("sojourn_reader", "secret", cluster)
    with connect(store_dsn) as store:
        for statement in items:
            if "INSERT" not in statement.split()[0]:
                store.client.query(f"EXPLAIN AST {statement}")
    tables = [s for s in items if s.startswith("CREATE TABLE") and "ENGINE = Null" not in s]
    assert all(r"ON CLUSTER 'it\'s'" in s for s in tables)
    assert all("Replicated" in s or "Distributed('it" in s for s in tables)


def test_schema_files_use_every_placeholder_and_no_other() -> None:
    placeholders: set[str] = set()
    for file in schema_folder().glob("[0-9]*.sql"):
        text = Template(file.read_text())
        placeholders.update(text.get_identifiers())
        assert text.is_valid(), file.name
        assert "${" not in "".join(Migration(file.stem, file.read_text()).statements()), file.name
    assert placeholders == {"local", "on_cluster", "replicated"}


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
    assert len(table) >= 37


def test_every_column_says_what_it_holds_or_says_it_by_its_name(store_dsn: str) -> None:
    """A duration has its unit in its name or comment."""
    result = ask(
        store_dsn,
        "SELECT table, name, comment FROM system.columns WHERE database = currentDatabase() "
        "AND table != 'requests_split' AND type LIKE '%Decimal(18, 6)%' AND table NOT IN "
        "(SELECT name FROM system.tables WHERE database = currentDatabase() AND engine = 'MaterializedView')",
    )
    assert result
    assert [(t, n) for t, n, comment in result if not comment.startswith("s")] == []
