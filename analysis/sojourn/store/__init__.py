"""The store: ClickHouse, embedded (chDB) or on a server, behind one DSN. See docs/reference/store.md.

Light to import: the engine and its client are loaded when a store is opened.
"""

from sojourn.model.dsn import Dsn, is_store
from sojourn.store.client import Store, connect
from sojourn.store.load import load
from sojourn.store.load_result import Loaded
from sojourn.store.migrate import init
from sojourn.store.rollups import refresh_rollups

__all__ = ["Dsn", "Loaded", "Store", "connect", "init", "is_store", "load", "refresh_rollups"]
