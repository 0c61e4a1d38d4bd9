"""Tables of requests are loaded as logs are: rows, refused rows, and the same split."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
import sojourn
from sojourn.model.errors import SojournError
from sojourn.store import load
from store_support import ask, one

ROLES = "arrival=t:rel,response=rt:ms,service=svc:ms,backend=pod,route=func"
TEXT = "t,rt,svc,pod,func\n" + "".join(f"{n}.5,{100 + n},{60 + n % 7},p{n % 2},/f\n" for n in range(300))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_loaded_table_has_the_split_of_its_file(store_dsn: str, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"t.{kind}"
    if kind == "csv":
        path.write_text(TEXT)
    else:
        pl.read_csv(TEXT.encode()).write_parquet(path)
    table = sojourn.table_file(path, ROLES)
    loaded = load(store_dsn, [table])
    assert (loaded.requests, loaded.dead_letters) == (300, 0)
    assert one(store_dsn, "SELECT sum(request_time) FROM requests FINAL") == Decimal(sum(range(100, 400))) / 1000
    file, store = (sojourn.split(source).to_dict() for source in (table, store_dsn))
    assert store["components"]["queueing_delay"]["mean"] == pytest.approx(file["components"]["queueing_delay"]["mean"])
    assert store["components"]["service_time"] == pytest.approx(file["components"]["service_time"])
    load(store_dsn, [table])
    assert one(store_dsn, "SELECT count() FROM requests FINAL") == 300


def test_refused_rows_of_a_table_are_dead_letters(store_dsn: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    header, good = "t,rt,svc,pod,func\n", "1,100,60,p,/f\n"
    path.write_text(f"{header}{good}2,-5,60,p,/f\n{good}")
    loaded = load(store_dsn, [sojourn.table_file(path, ROLES)])
    assert (loaded.requests, loaded.records.reasons) == (2, {"invalid_request_time": 1})
    letters = ask(store_dsn, "SELECT reason, position, raw FROM dead_letters FINAL")
    assert letters == [("invalid_request_time", len(header + good), "2,-5,60,p,/f")]


def test_a_table_without_roles_is_not_loaded(store_dsn: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(TEXT)
    with pytest.raises(SojournError, match="likely: --columns arrival=t:rel_UNIT,response=rt:UNIT"):
        load(store_dsn, path)
    assert one(store_dsn, "SELECT count() FROM requests FINAL") == 0
