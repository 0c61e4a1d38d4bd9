"""The roles as they are granted, read by the engine's own parser; and what the embedded engine takes from a folder.

The embedded engine has no users to try them with: it checks neither grants nor read-only profiles. What a role may do
is what is granted and nothing else, so the grants themselves are held to a list here.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from sojourn.store import connect
from sojourn.store.roles import USERS, role_statements, user_statements

# Rights that lead out of the database: to other hosts, to files, to programs, or to more rights.
OUT = {
    "URL", "FILE", "S3", "REMOTE", "MYSQL", "POSTGRES", "MONGO", "REDIS", "ODBC", "JDBC", "HDFS", "AZURE", "KAFKA",
    "SOURCES", "CREATE TEMPORARY TABLE", "CREATE FUNCTION", "CREATE USER", "ROLE ADMIN", "ACCESS MANAGEMENT", "ALL",
    "SYSTEM", "INTROSPECTION", "KILL QUERY", "DICTGET", "BACKUP", "NAMED COLLECTION", "CREATE", "ALTER", "DROP",
}  # fmt: skip
# Role -> object -> rights. These are all grants.
ROLES = {
    "sojourn_writing": {"d.*": set(), "table": {"INSERT"}, "*.*": set()},
    "sojourn_reading": {"d.*": {"SELECT", "SHOW"}, "table": set(), "*.*": set()},
}


def granted(role: str, cluster: str | None = None) -> list[tuple[set[str], str]]:
    """(rights, where) of each grant to the role."""
    matches = []
    for statement in role_statements("d", cluster):
        match = re.fullmatch(r"GRANT (?:ON CLUSTER \S+ )?(.+) ON (\S+) TO (\w+)", " ".join(statement.split()))
        if match and match[3] == role:
            matches.append(({right.strip() for right in match[1].split(",")}, match[2]))
    return matches


@pytest.mark.parametrize("cluster", [None, "sojourn"])
@pytest.mark.parametrize("role", ROLES)
def test_the_reader_and_the_writer_get_what_their_work_takes(role: str, cluster: str | None) -> None:
    grants = granted(role, cluster)
    assert grants
    for rights, where in grants:
        kind = where if where in {"d.*", "*.*"} else "table"
        assert where.startswith("d."), "another database"
        assert rights <= ROLES[role][kind]
        assert not rights & OUT


def test_only_the_migrator_reaches_other_hosts_and_only_those_of_the_cluster() -> None:
    everywhere = [rights for rights, where in granted("sojourn_migrating") if where == "*.*"]
    assert everywhere == [{"CLUSTER", "REMOTE"}]
    assert not any(rights & (OUT - {"REMOTE", "CREATE", "ALTER", "DROP"}) for rights, _ in granted("sojourn_migrating"))


def test_no_role_has_grant_option_or_further_grants() -> None:
    text = "\n".join([*role_statements("d"), *(s for user in USERS for s in user_statements(user, "x"))])
    assert "GRANT OPTION" not in text
    assert "ADMIN OPTION" not in text
    matches = re.findall(r"^GRANT .*$", text, re.M)
    roles = "|".join(USERS.values())
    assert all(re.search(rf" TO ({roles})$", s) or re.fullmatch(rf"GRANT  ?({roles}) TO \w+", s) for s in matches)


def test_a_limit_of_the_reader_cannot_be_lifted_by_a_query() -> None:
    (profile,) = [s for s in role_statements("d") if "sojourn_reading_limits" in s]
    assert re.search(r"readonly = 2 CONST", profile)
    bounded = re.findall(r"(\w+) = \d+ MIN (\d+) MAX (\d+)", profile)
    assert {name for name, *_ in bounded} >= {
        "max_execution_time",
        "max_memory_usage",
        "max_result_rows",
        "max_threads",
    }
    # 0 would be no limit at all.
    assert all(int(least) >= 1 and int(most) > 0 for _, least, most in bounded)


@pytest.mark.parametrize("cluster", [None, "sojourn"])
def test_the_engine_parses_every_statement(store_dsn: str, cluster: str | None) -> None:
    with connect(store_dsn) as store:
        for statement in [*role_statements("d", cluster), *user_statements("sojourn_reader", "x", cluster)]:
            assert "Query" in str(store.client.query(f"EXPLAIN AST {statement}").result_rows[0][0])


def test_no_configuration_of_the_folder_one_stands_in_is_read(tmp_path: Path) -> None:
    """The engine takes ./config.xml for its own: it would write where that says, to begin with."""
    written = tmp_path / "written.log"
    (tmp_path / "config.xml").write_text(
        f"<clickhouse><logger><log>{written}</log><level>trace</level></logger></clickhouse>"
    )
    (tmp_path / "store").mkdir()
    own = "import sys\nfrom sojourn.store import connect\nconnect(sys.argv[1], database='default').close()"
    for program in (own, "import chdb"):
        done = subprocess.run(
            [sys.executable, "-c", program, f"chdb://{tmp_path}/store"],
            cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        # The second is the engine left to itself: should it stop reading that file, this is over.
        assert written.exists() == (program != own)
