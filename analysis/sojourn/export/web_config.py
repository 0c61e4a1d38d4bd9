"""TLS and passwords of the listener, from a file in the format of Prometheus's exporter-toolkit.

The format: https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md. A key that is not
supported is refused: a restriction that does not apply would look as if it did.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import ssl
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from sojourn.model.errors import SojournError
from sojourn.model.extras import needed_for

OPTION = "--web.config.file"
KEYS = (
    "tls_server_config (cert_file, key_file, client_auth_type, client_ca_file, min_version, max_version), "
    "basic_auth_users"
)
HASH = re.compile(r"\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}")
# The password of no account: whether a user exists does not show in the time of an answer.
NO_ACCOUNT = b"$2b$10$LuMx1MpQ1k93pmhcc5fa/OHaGdufOhgjcf1XXwqYJBkLPE6jzb1VC"
MOST_ACCEPTED = 100  # correct passwords that are remembered: bcrypt takes a tenth of a second

Version = Literal["TLS12", "TLS13"]
VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
CLIENT_AUTH = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}


class _Tls(msgspec.Struct, forbid_unknown_fields=True):
    cert_file: str
    key_file: str
    client_auth_type: Literal["NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"] = "NoClientCert"
    client_ca_file: str = ""
    min_version: Version = "TLS12"
    max_version: Version = "TLS13"


class _File(msgspec.Struct, forbid_unknown_fields=True):
    tls_server_config: _Tls | None = None
    basic_auth_users: dict[str, str] | None = None


class WebConfig:
    """What the listener requires of clients; without a file, nothing.

    The file, and the certificates that it names, are read again when one of them changes, as renewed certificates do.
    A change that cannot be used is reported on standard error, and what was read before remains.

    Args:
        file: the file; None: no TLS and no passwords.

    Raises:
        SojournError: the file or a certificate cannot be read, or a key or a value is not supported.
    """

    def __init__(self, file: str | None = None) -> None:
        self._path = None if file is None else Path(file)
        self._lock = threading.Lock()
        self._accepted: set[bytes] = set()
        self._files: Sequence[Path] = ()
        self._tls: ssl.SSLContext | None = None
        self._users: dict[str, bytes] = {}
        self._state: object = None
        if self._path is not None:
            self._load(self._path)

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self._tls is not None

    @property
    def protects(self) -> bool:
        """Whether TLS or a password is required."""
        return self._tls is not None or bool(self._users)

    def tls(self) -> ssl.SSLContext | None:
        """Return the context of a new connection, read again after a change; None: without TLS."""
        if self._path is not None and (state := self._state_of(self._files)) != self._state:
            try:
                self._load(self._path)
            except SojournError as error:
                self._state = state
                sys.stderr.write(f"{error}; what was read before remains\n")
        return self._tls

    def allows(self, authorization: str | None) -> bool:
        """Return whether a header ``Authorization`` (None: a request without one) has a user's password."""
        users = self._users
        if not users:
            return True
        scheme, _, encoded = (authorization or "").partition(" ")
        try:
            name, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return False
        return scheme.lower() == "basic" and bool(colon) and self._matches(users, name, password.encode())

    def _matches(self, users: dict[str, bytes], name: str, password: bytes) -> bool:
        import bcrypt  # noqa: PLC0415 - of an extra

        expected = users.get(name, NO_ACCOUNT)
        if len(password) > 72:  # bytes that bcrypt compares
            return False
        key = hmac.digest(expected, name.encode() + b":" + password, hashlib.sha256)
        with self._lock:  # one at a time: clients cannot take every processor with wrong passwords
            if key in self._accepted:
                return True
            matches = bcrypt.checkpw(password, expected) and name in users
            if matches and len(self._accepted) < MOST_ACCEPTED:
                self._accepted.add(key)
        return matches

    def _load(self, path: Path) -> None:
        with needed_for(OPTION, "web"):
            import bcrypt  # noqa: F401, PLC0415 - of an extra
            import yaml  # noqa: F401, PLC0415 - msgspec reads YAML with it
        try:
            read = msgspec.yaml.decode(path.read_bytes() or b"{}", type=_File | None) or _File()
        except OSError as error:
            raise _refused(path, error.strerror) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            text = " ".join(str(error).split())
            raise _refused(path, f"{text} (supported: {KEYS})") from None
        users = read.basic_auth_users or {}
        for name, text in users.items():
            if not HASH.fullmatch(text):
                raise _refused(path, f"basic_auth_users: {name}: not a bcrypt hash, as `htpasswd -nBC 10` writes")
        tls = read.tls_server_config
        files = [
            path,
            *(
                (path.parent / name for name in (tls.cert_file, tls.key_file, tls.client_ca_file) if name)
                if tls
                else ()
            ),
        ]
        state = self._state_of(files)
        self._tls = None if tls is None else _context(path, tls)
        self._users = {name: text.encode() for name, text in users.items()}
        self._files, self._state = files, state

    @staticmethod
    def _state_of(files: Sequence[Path]) -> object:
        try:
            return [(each.st_mtime_ns, each.st_size, each.st_ino) for each in (file.stat() for file in files)]
        except OSError as error:
            return str(error)


def _refused(path: Path, reason: object) -> SojournError:
    return SojournError(f"{OPTION} {path}: {reason}")


def _context(path: Path, tls: _Tls) -> ssl.SSLContext:
    """Return the TLS of a server; names of files are relative to the folder of the configuration."""
    if not tls.cert_file or not tls.key_file:
        raise _refused(path, "tls_server_config: cert_file and key_file are required")
    if (tls.client_auth_type == "NoClientCert") == bool(tls.client_ca_file):
        raise _refused(
            path, "tls_server_config: client_ca_file and a client_auth_type that verifies are required together"
        )
    if tls.min_version > tls.max_version:
        raise _refused(path, "tls_server_config: min_version is later than max_version")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.maximum_version = VERSIONS[tls.min_version], VERSIONS[tls.max_version]
    names = f"{tls.cert_file}, {tls.key_file}"
    try:
        # Without a password, an encrypted key is refused; no prompt appears on the terminal.
        context.load_cert_chain(path.parent / tls.cert_file, path.parent / tls.key_file, password="")
        if tls.client_ca_file:
            names = tls.client_ca_file
            context.load_verify_locations(path.parent / names)
    except OSError as error:  # of which ssl.SSLError is one
        raise _refused(path, f"tls_server_config: {names}: {error.strerror or error}") from None
    context.verify_mode = CLIENT_AUTH[tls.client_auth_type]
    return context
