"""Roles: what is granted, and that no password is ever sent or made up."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from sojourn.model.dsn import parse
from sojourn.model.errors import SojournError
from sojourn.store import roles
from sojourn.store.roles import USERS, make_roles, role_statements, user_statements


class Server:
    """Takes commands, as a server would."""

    def __init__(self) -> None:
        self.queries: list[str] = []
        self.client = self

    def command(self, sql: str) -> None:
        self.queries.append(sql)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        return


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    produced = Server()
    monkeypatch.setattr(roles, "connect", lambda address: produced)
    return produced


def test_no_user_without_a_password_file(server: Server) -> None:
    assert make_roles(parse("clickhouse://h"), environment={}) == []
    assert not [s for s in server.queries if "USER" in s.split()]
    assert not [s for s in server.queries if "IDENTIFIED" in s]


def test_users_with_a_file_and_no_password_in_what_is_sent(server: Server, tmp_path: Path) -> None:
    (tmp_path / "w").write_text("correct horse\n")
    (tmp_path / "r").write_text("battery staple")
    environment = {
        "SOJOURN_WRITER_PASSWORD_FILE": str(tmp_path / "w"),
        "SOJOURN_READER_PASSWORD_FILE": str(tmp_path / "r"),
    }
    assert make_roles(parse("clickhouse://h"), environment=environment) == ["sojourn_writer", "sojourn_reader"]
    sent = "\n".join(server.queries)
    assert "horse" not in sent
    assert "staple" not in sent
    (hashed, salt), *_ = re.findall(r"sha256_hash BY '(\w+)' SALT '(\w+)'", sent)
    assert hashed.lower() == hashlib.sha256(f"correct horse{salt}".encode()).hexdigest()
    assert len(set(re.findall(r"SALT '(\w+)'", sent))) == 2


def test_an_empty_file_creates_no_user(server: Server, tmp_path: Path) -> None:
    (tmp_path / "w").write_text("\n")
    with pytest.raises(SojournError, match="empty"):
        make_roles(parse("clickhouse://h"), environment={"SOJOURN_WRITER_PASSWORD_FILE": str(tmp_path / "w")})
    assert server.queries == []


def grants(role: str, cluster: str | None = None) -> list[str]:
    return [s for s in role_statements("d", cluster) if s.startswith("GRANT") and s.endswith(f" TO {role}")]


def test_the_writer_inserts_and_nothing_else() -> None:
    arguments = grants("sojourn_writing")
    assert all(re.fullmatch(r"GRANT  ?INSERT ON d\.\w+ TO sojourn_writing", s) for s in arguments)
    tables = {re.search(r"d\.(\w+)", s)[1] for s in arguments}  # type: ignore[index]
    others = ("spans", "app_log", "listen_queue", "log_files", "pipeline_metrics")
    assert tables == {"incoming", *(f"incoming_{other}" for other in others)}


def test_the_reader_selects_within_limits() -> None:
    assert [" ".join(s.split()) for s in grants("sojourn_reading")] == ["GRANT SELECT, SHOW ON d.* TO sojourn_reading"]
    (profile,) = [s for s in role_statements("d") if "sojourn_reading_limits" in s]
    for limit in ("max_execution_time", "max_memory_usage", "max_result_rows", "max_rows_to_read"):
        assert re.search(rf"{limit} = \d+ MIN 1 MAX \d+", profile)
    assert "readonly = 2 CONST" in profile


def test_every_user_has_its_role() -> None:
    for user, role in USERS.items():
        text = "\n".join(user_statements(user, "x"))
        assert f"{role} TO {user}" in text
        assert f"DEFAULT ROLE {role}" in text
        assert any(f"ROLE IF NOT EXISTS {role}" in s for s in role_statements("d"))
