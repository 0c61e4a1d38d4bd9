"""Query raindrops of a unicorn: requests in its workers, and the queues of its listeners.

``Raindrops::Middleware`` answers a request for ``/_raindrops`` with lines of text. It is answered by a worker, so the
query waits in the very queue that it measures: with all workers busy there is no answer until one is free, and the
figures are those of that moment. Never more than one query is under way at an endpoint: one more each second
would fill the measured queue.
"""

from __future__ import annotations

import http.client
import re
import socket
import threading
import time
from urllib.parse import urlsplit

from sojourn.host.sample import Raindrops
from sojourn.model.errors import SojournError
from sojourn.model.formatting import printable

PATH = "/_raindrops"  # raindrops' own default
PATIENCE = 30.0  # s: then the endpoint counts as not answering, and is queried again
BUDGET = 0.2  # s of a look: an idle unicorn answers in a millisecond
LARGEST = 1 << 20  # bytes of an answer

_LISTENER = re.compile(r"(?P<address>\S+) (?P<kind>active|queued): (?P<count>\d+)")
_COUNT = re.compile(r"(?P<kind>calling|writing): (?P<count>\d+)")


class Endpoint:
    """The address of a raindrops middleware: ``http://host:port[/path]`` or ``http://unix:/socket[:/path]``.

    Raises:
        SojournError: the address is neither.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.socket: str | None = None
        wrong = (
            f"{printable(url)}: raindrops is queried at http://HOST:PORT/_raindrops or http://unix:/SOCKET:/_raindrops"
        )
        if url.startswith("http://unix:/"):
            self.socket, _, path = url.removeprefix("http://unix:").partition(":")
            self.host, self.port = "localhost", 80
        else:
            try:
                parts = urlsplit(url)
                self.host, self.port = parts.hostname or "", parts.port or 80
            except ValueError:
                raise SojournError(wrong) from None
            path = parts.path + (f"?{parts.query}" if parts.query else "")
            if parts.scheme != "http" or not self.host:
                raise SojournError(wrong)
        self.path = path if len(path) > 1 else PATH
        if not self.path.isascii() or not self.path.isprintable() or " " in self.path:
            raise SojournError(wrong)

    def answer(self, timeout: float = PATIENCE) -> Raindrops:
        """Request the figures, and wait for the response for at most ``timeout`` s between its bytes.

        Raises:
            OSError, http.client.HTTPException, ValueError: there is none, or it is none of raindrops'.
        """
        begun = time.monotonic()
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            if self.socket is not None:
                connection.sock = socket.socket(socket.AF_UNIX)
                connection.sock.settimeout(timeout)
                connection.sock.connect(self.socket)
            connection.request("GET", self.path, headers={"Connection": "close", "User-Agent": "sojourn"})
            response = connection.getresponse()
            body = response.read(LARGEST)
        finally:
            connection.close()
        if response.status != 200:
            raise ValueError(f"it answered {response.status}")
        return raindrops_of(body.decode(errors="replace"), time.monotonic() - begun)


def raindrops_of(text: str, seconds: float) -> Raindrops:
    """Return the figures of a response of the middleware; ``seconds``: its duration.

    Raises:
        ValueError: there is nothing of raindrops' in it.
    """
    totals: dict[str, int] = {}
    listeners: dict[str, list[int]] = {}
    for line in text.splitlines():
        if match := _COUNT.fullmatch(line.strip()):
            totals[match["kind"]] = int(match["count"])
        elif match := _LISTENER.fullmatch(line.strip()):
            listeners.setdefault(match["address"], [0, 0])[match["kind"] == "queued"] = int(match["count"])
    if not totals and not listeners:
        raise ValueError("the answer is not from raindrops")
    return Raindrops(
        totals.get("calling"),
        totals.get("writing"),
        {address: (active, queued) for address, (active, queued) in listeners.items()},
        round(seconds, 6),
    )


class Asker:
    """A client of one endpoint: one query at a time, in the background."""

    def __init__(self, url: str) -> None:
        self._endpoint = Endpoint(url)
        self._answer: Raindrops | str = ""
        self._answered = threading.Event()
        self._since: float | None = None

    def sample(self, budget: float = BUDGET) -> Raindrops | str:
        """Return the answer if it comes within ``budget`` s: to this query or an earlier one.

        Otherwise a sentence: that it has not come yet and since when, or why there is none.
        """
        if self._since is None:
            self._answered.clear()
            self._since = time.monotonic()
            threading.Thread(target=self._ask, name="raindrops", daemon=True).start()
        if self._answered.wait(budget):
            self._since = None
            return self._answer
        waited = time.monotonic() - self._since
        return f"no answer for {waited:.1f} s: the query waits in the measured queue, all workers may be busy"

    def _ask(self) -> None:
        try:
            self._answer = self._endpoint.answer()
        except TimeoutError:
            self._answer = f"no answer within {PATIENCE:g} s"
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._answer = f"no answer: {printable(str(error) or type(error).__name__)}"
        finally:
            self._answered.set()
