"""Custom keys of the log format are read as text, from logs and from Parquet."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
import sojourn
from analysis_support import line
from sojourn.model.errors import SojournError


def test_a_tenant_is_read_where_the_log_has_one(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    log.write_bytes(line(tenant="blue") + line(tenant="-") + line() + line(tenant="7"))
    rows = sojourn.read(log, columns=("time", "tenant")).rows.collect()
    assert rows["tenant"].to_list() == ["blue", None, None, "7"]
    assert rows.schema["tenant"] == pl.String()


def test_custom_keys_are_kept_by_split_and_parquet(tmp_path: Path) -> None:
    log, parquet = tmp_path / "a.jsonl", tmp_path / "a.parquet"
    log.write_bytes(line(tenant="blue") + line(tenant="red"))
    sojourn.split(log, columns=("tenant",)).write_parquet(parquet)
    for source in ([parquet], [log, parquet]):
        rows = sojourn.split(source, columns=("tenant", "nothing")).rows.collect()
        assert set(rows["tenant"]) == {"blue", "red"}
        assert rows["nothing"].null_count() == len(rows)


@pytest.mark.parametrize("name", ['a"b', "a b", "1st", "", "a" * 65, "a;DROP"])
def test_rejects_invalid_keys(tmp_path: Path, name: str) -> None:
    log = tmp_path / "a.jsonl"
    log.write_bytes(line())
    with pytest.raises(SojournError, match="not valid keys"):
        sojourn.read(log, columns=("time", name))


def test_a_store_has_no_such_column(store_dsn: str, tmp_path: Path) -> None:
    from sojourn.store import init  # noqa: PLC0415

    init(store_dsn)
    with pytest.raises(SojournError, match="no column 'tenant'"):
        sojourn.split(store_dsn, columns=("tenant",))
