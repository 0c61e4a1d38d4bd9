"""Roles of a server, and users whose passwords are in files."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Mapping

from sojourn.model.dsn import Dsn, secret
from sojourn.store.client import connect, plainly
from sojourn.store.schema import schema_folder, statements, substituted

# User -> role. A user is made when a file with its password is named: SOJOURN_WRITER_PASSWORD_FILE and so on.
USERS = {
    "sojourn_writer": "sojourn_writing",
    "sojourn_reader": "sojourn_reading",
    "sojourn_migrator": "sojourn_migrating",
}


def make_roles(address: Dsn, *, cluster: str | None = None, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Create the roles, and every user whose password file ``environment`` names; return these users.

    There is no default password: a user without a file is not made, and one that is there already is left alone.

    Raises:
        SojournError: a file holds no password, or the server refused.
    """
    files = {user: environment.get(f"{user.upper()}_PASSWORD_FILE") for user in USERS}
    passwords = {user: secret(file) for user, file in files.items() if file}
    with connect(address) as store:
        for statement in role_statements(address.database, cluster):
            with plainly(store, "making the roles"):
                store.client.command(statement)
        for user, password in passwords.items():
            for statement in user_statements(user, password, cluster):
                with plainly(store, f"making the user {user}"):
                    store.client.command(statement)
    return list(passwords)


def role_statements(database: str, cluster: str | None = None) -> list[str]:
    """Return the statements that create the roles and their limits."""
    return statements(substituted(_file("roles.sql"), cluster, database=database))


def user_statements(user: str, password: str, cluster: str | None = None) -> list[str]:
    """Return the statement that creates one of ``USERS``, with the salted SHA-256 of the password."""
    salt = secrets.token_hex(16)
    hashed = hashlib.sha256((password + salt).encode()).hexdigest().upper()
    return statements(substituted(_file("user.sql"), cluster, user=user, role=USERS[user], hash=hashed, salt=salt))


def _file(name: str) -> str:
    return (schema_folder() / "roles" / name).read_text(encoding="utf-8")
