"""DSNs: taken apart, put together, refused in words; a password is never shown."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sojourn.model.dsn import Dsn, parse
from sojourn.model.errors import SojournError
from sojourn.store import connect, is_store

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True)
words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=20)


@given(
    user=words,
    password=words,
    host=st.sampled_from(["db", "10.0.0.1", "[::1]", "a.example"]),
    port=st.integers(1, 65535),
    database=names,
    secure=st.booleans(),
)
def test_a_server(user: str, password: str, host: str, port: int, database: str, secure: bool) -> None:
    scheme = "clickhouses" if secure else "clickhouse"
    address = parse(f"{scheme}://{quote(user, safe='')}:{quote(password, safe='')}@{host}:{port}/{database}")
    assert address == Dsn(scheme, database, host=host.strip("[]"), port=port, user=user, password=password)
    assert str(address) == f"{scheme}://{user}@{host}:{port}/{database}"
    assert "password" not in repr(address)


@given(st.from_regex(r"(/[A-Za-z0-9 ._%~-]{1,10}){1,3}", fullmatch=True), names)
def test_a_folder(path: str, database: str) -> None:
    address = parse(f"chdb://{quote(path)}?database={database}")
    assert (address.path, address.database, address.embedded) == (path, database, True)


@given(st.text(max_size=60))
def test_nothing_but_words_comes_of_garbage(text: str) -> None:
    for scheme in ("", "chdb://", "clickhouse://", "clickhouses://user:secret@"):
        try:
            parse(scheme + text)
        except SojournError as error:
            assert "secret" not in str(error) or "secret" in text  # noqa: PT017 - it may also be a DSN


@pytest.mark.parametrize(
    ("dsn", "expected"),
    [
        ("chdb:///var/lib/x", Dsn("chdb", "sojourn", path="/var/lib/x")),
        ("chdb://./here", Dsn("chdb", "sojourn", path="./here")),
        ("clickhouse://h", Dsn("clickhouse", "sojourn", host="h", port=8123)),
        ("clickhouses://h", Dsn("clickhouses", "sojourn", host="h", port=8443)),
        ("clickhouse://u@h:1/d", Dsn("clickhouse", "d", host="h", port=1, user="u")),
        ("clickhouses://h/d?ca=/etc/ca.pem", Dsn("clickhouses", "d", host="h", port=8443, ca="/etc/ca.pem")),
    ],
)
def test_examples(dsn: str, expected: Dsn) -> None:
    assert is_store(dsn)
    assert parse(dsn) == expected


@pytest.mark.parametrize(
    ("dsn", "words"),
    [
        ("chdb://", "no folder"),
        ("chdb:///x?database=a-b", "not a valid database name"),
        ("chdb:///x?databse=a", "'databse' is not an option"),
        ("clickhouse://u:p w@/d", "no host"),
        ("clickhouse://u:secret@h:0x1/d", "not a store's address"),
        ("clickhouse://u:secret@h/a/b", "'a/b' is not a valid database name"),
        ("clickhouse://u:secret@h/d#x", "%23"),
        ("postgres://h/d", "not a store"),
        ("access.jsonl", "not a store"),
    ],
)
def test_rejects_invalid_dsn(dsn: str, words: str) -> None:
    with pytest.raises(SojournError, match=words) as refused:
        parse(dsn)
    assert "secret" not in str(refused.value)


def test_files_are_not_stores() -> None:
    assert not any(is_store(x) for x in ("a.jsonl", "./chdb", Path("runs"), "-", "http://h/x", "chdb:/x"))


def test_the_password_may_be_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SOJOURN_STORE_PASSWORD", "from env")
    assert parse("clickhouse://u@h").password == "from env"
    assert parse("clickhouse://u:own@h").password == "own"
    file = tmp_path / "password"
    monkeypatch.setenv("SOJOURN_STORE_PASSWORD_FILE", str(file))
    with pytest.raises(SojournError, match="no password can be read"):
        parse("clickhouse://u@h")
    file.write_text("from file \n")
    assert parse("clickhouse://u@h").password == "from file "
    file.write_text("\n")
    with pytest.raises(SojournError, match="it is empty"):
        parse("clickhouse://u@h")


def test_errors_of_opening_a_store(store_dsn: str, tmp_path: Path) -> None:
    folder = store_dsn.split("?", maxsplit=1)[0]
    for dsn, sentence in (
        (f"chdb://{tmp_path}/none", "create it with `sojourn store init chdb://"),
        (f"{folder}?database=none", "has no database 'none'; create it with `sojourn store init chdb://"),
        (f"chdb://{tmp_path}", "another embedded store open"),
        ("clickhouse://u:secret@127.0.0.1:1/d", "cannot be reached"),
        ("clickhouse://sojourn.invalid/d", "cannot be reached"),
    ):
        with pytest.raises(SojournError, match=sentence) as refused:
            connect(dsn)
        assert "secret" not in str(refused.value)
        assert "\n" not in str(refused.value)
