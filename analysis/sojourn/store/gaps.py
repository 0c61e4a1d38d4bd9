"""Close a gap of a log in the store with lines that are loaded from elsewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from sojourn.model.errors import SojournError
from sojourn.model.formatting import printable
from sojourn.store.client import Store, plainly, rows

_TEXT = re.compile(r"(?P<source>.+)@(?P<begin>\d{1,19})-(?P<end>\d{1,19})\Z", re.DOTALL)
_GAPS = """
    SELECT file, noticed FROM line_gaps
    WHERE source = {source:String} AND begin = {begin:UInt64} AND end = {end:UInt64} ORDER BY noticed DESC LIMIT 1"""
# When the file had this length: the view line_runs_of_files places a line by its time.
_TIME = """
    SELECT greatest(toDateTime64(min(slot), 6, 'UTC'), toDateTime64(any(first_record), 6, 'UTC')) FROM
    (
        SELECT slot, size, if(min(slot) OVER () < toStartOfInterval(min(began) OVER (), INTERVAL 10 SECOND),
            toDateTime64(0, 3, 'UTC'), min(began) OVER ()) AS first_record
        FROM log_files FINAL WHERE source = {source:String} AND file = {file:String}
    )
    WHERE size > {begin:UInt64}"""


@dataclass(frozen=True)
class Gap:
    """A gap of the view ``line_gaps``.

    Attributes:
        source: host and log.
        begin, end: bytes.
        file: the file, as ``line_gaps`` has it; empty: its log is not sampled.
        noticed: when it was noticed.
    """

    source: str
    begin: int
    end: int
    file: str
    noticed: Any

    @classmethod
    def of(cls, store: Store, text: str) -> Gap:
        """Return the gap that a text such as ``web1:/var/log/sojourn/access.jsonl@100-250`` names.

        Raises:
            SojournError: it names no gap of the store.
        """
        parts = _TEXT.match(text)
        if parts is None:
            raise SojournError(
                f"--closes {printable(text)}: not SOURCE@BEGIN-END, such as web1:/var/log/a.jsonl@100-250"
            )
        source, begin, end = parts["source"], int(parts["begin"]), int(parts["end"])
        with plainly(store, "looking for the gap"):
            matching = rows(store, _GAPS, {"source": source, "begin": begin, "end": end})
        if not matching:
            raise SojournError(f"--closes {printable(text)}: line_gaps has no such gap")
        ((file, noticed),) = matching
        return cls(source, begin, end, file, noticed)

    def close(self, store: Store, lines: int) -> None:
        """Note that the bytes of the gap have arrived as so many lines."""
        since = self.noticed
        if self.file:
            place = {"source": self.source, "file": self.file, "begin": self.begin}
            with plainly(store, "closing the gap"):
                ((since,),) = rows(store, _TIME, place)
        row = [self.source, self.begin, self.end, lines, since, since, not self.file, self.noticed]
        columns = ["source", "begin", "end", "lines", "since", "until", "refused", "arrived"]
        with plainly(store, "closing the gap"):
            store.client.insert("line_runs", [row], column_names=columns)
