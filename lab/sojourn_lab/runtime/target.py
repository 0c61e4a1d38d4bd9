"""The URLs that `--url` offers a load to: their weights, certificates and limits, and the log of the nginx in front."""

from __future__ import annotations

import math
import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from sojourn_lab.errors import ScenarioError
from sojourn_lab.load.plan import Target

WEIGHT = re.compile(r"(?P<weight>[0-9]+(?:\.[0-9]+)?)=(?P<url>[A-Za-z][A-Za-z0-9+.-]*://.*)")
"""`3=https://example.com/`: a URL has no scheme that begins with a digit, so the weight is certain."""


@dataclass(frozen=True)
class Limits:
    """Limits of the load: requests a second, users of a closed loop, total seconds of load."""

    rate: float = 5.0
    concurrency: int = 4
    duration: float = 60.0


@dataclass(frozen=True)
class TargetUrl:
    """A URL: `base` (scheme and host), the `path` with query to request, and its share of the requests."""

    base: str
    path: str
    weight: float = 1.0

    @property
    def without_query(self) -> str:
        """The URL for the records, without its query, which may hold a key."""
        return self.base + self.path.partition("?")[0]


@dataclass(frozen=True)
class Targets:
    """Where the load of a scenario goes.

    Attributes:
        urls: one or more; their shares are in proportion to the weights.
        limits: of the load of all URLs together.
        lab_app: the lab's app is behind the only URL, whose path is the prefix of its paths.
        cacert: file of certificates that https trusts in place of the system's.
        log: access log of the nginx in front of the URLs, on this machine; None: none is read.
    """

    urls: tuple[TargetUrl, ...]
    limits: Limits
    lab_app: bool = False
    cacert: Path | None = None
    log: Path | None = None

    @property
    def base(self) -> str:
        """The URL to which the lab's app adds its paths; of other targets, the first one's scheme and host."""
        first = self.urls[0]
        return first.base + (first.path.rstrip("/") if self.lab_app else "")

    @property
    def names(self) -> list[str]:
        """The URLs without queries, with their weights if they differ."""
        weighted = len({each.weight for each in self.urls}) > 1
        return [f"{each.weight:g}={each.without_query}" if weighted else each.without_query for each in self.urls]

    def of_plan(self) -> list[Target]:
        """Return the targets of the generator; none for the lab's app. Each has the name of its path, or of its URL.

        Names hold no query; `#2` tells apart those that differ in their queries alone.
        """
        if self.lab_app:
            return []
        one_host = len({each.base for each in self.urls}) == 1
        names = [each.path.partition("?")[0] if one_host else each.without_query for each in self.urls]
        earlier = [names[:number].count(name) for number, name in enumerate(names)]
        return [
            Target(each.base + each.path, name if not before else f"{name} #{before + 1}", each.weight)
            for each, name, before in zip(self.urls, names, earlier, strict=True)
        ]


def targets_from_options(
    urls: Sequence[str],
    *,
    limits: Mapping[str, float | None],
    lab_app: bool,
    starts: bool,
    cacert: Path | None = None,
    log: Path | None = None,
) -> Targets | None:
    """Return the targets of a command's options, None without a URL.

    Args:
        urls: of `--url`, each with or without a weight.
        limits: options by the names of `Limits`; None for those not set.
        lab_app: whether the lab's app is behind the URL.
        starts: whether other options say which servers the lab starts.
        cacert: of `--cacert`.
        log: of `--log`.

    Raises:
        ScenarioError: options that do not go together, or files that cannot be read.
    """
    limited = {key: value for key, value in limits.items() if value is not None}
    if not urls:
        if limited or lab_app or cacert is not None or log is not None:
            raise ScenarioError("--lab-app, --cacert, --log and the limits --max-… need --url")
        return None
    if starts:
        raise ScenarioError("--server, --runtime, --capture select what the lab starts; with --url it starts nothing")
    allowed = Limits(
        rate=limited.get("rate", Limits.rate),
        concurrency=int(limited.get("concurrency", Limits.concurrency)),
        duration=limited.get("duration", Limits.duration),
    )
    parsed = tuple(map(target_url, urls))
    if lab_app and len(parsed) > 1:
        raise ScenarioError("--lab-app needs one --url: that of the lab's app")
    if cacert is not None:
        _check_certificates(cacert, parsed)
    if log is not None:
        _check_log(log)
    return Targets(parsed, allowed, lab_app, cacert and cacert.absolute(), log and log.absolute())


def target_url(text: str) -> TargetUrl:
    """Return the URL of `--url`, with its weight; ScenarioError if it is invalid or holds a password."""
    match = WEIGHT.fullmatch(text)
    weight, url = (float(match["weight"]), match["url"]) if match else (1.0, text)
    if not 0.0 < weight < math.inf:
        raise ScenarioError(f"--url {text}: the weight must be above 0")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ScenarioError(f"--url {url}: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ScenarioError(f"--url {url}: not a URL of the form http://host[:port][/path], or WEIGHT=URL")
    if parts.username is not None or parts.password is not None:
        raise ScenarioError("--url: a name and a password would be written into the run's records; leave them out")
    if any(character <= " " or character > "~" for character in url):
        raise ScenarioError("--url: only printable ASCII; write the rest as %XX")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    base = f"{parts.scheme}://{host}" + (f":{port}" if port is not None else "")
    return TargetUrl(base, (parts.path or "/") + (f"?{parts.query}" if parts.query else ""), weight)


def _check_certificates(cacert: Path, urls: Sequence[TargetUrl]) -> None:
    if not any(each.base.startswith("https:") for each in urls):
        raise ScenarioError("--cacert needs an https --url")
    try:
        ssl.create_default_context(cafile=cacert)
    except ssl.SSLError:
        raise ScenarioError(f"--cacert {cacert}: holds no certificate in PEM form") from None
    except OSError as error:
        raise ScenarioError(f"--cacert {cacert}: cannot be read: {error.strerror}") from None


def _check_log(log: Path) -> None:
    try:
        with log.open("rb"):
            pass
    except OSError as error:
        raise ScenarioError(f"--log {log}: cannot be read: {error.strerror}") from None
