"""WSGI and ASGI middleware that answers with its own queueing delay and service time.

Importing this package imports nothing but the standard library.
"""

from .asgi import ASGIMiddleware
from .pools import observe_pool
from .stamp import REASONS, STAMP_HEADERS, Stamp, StampReader, parse_stamp
from .telemetry import Telemetry
from .timing import mark_started
from .wsgi import WSGIMiddleware

__all__ = [
    "REASONS",
    "STAMP_HEADERS",
    "ASGIMiddleware",
    "Stamp",
    "StampReader",
    "Telemetry",
    "WSGIMiddleware",
    "mark_started",
    "observe_pool",
    "parse_stamp",
]
