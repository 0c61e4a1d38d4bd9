"""A page of the shop's log, answered without a socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from page_client import SHOP, SPANS, PageClient, session_of
from sojourn.serve.session import Session, Sessions


@pytest.fixture(scope="package")
def shop() -> Session:
    """The session of the shop's log with its spans."""
    return session_of(SHOP, spans=(SPANS,))


@pytest.fixture(scope="package")
def open_client() -> Iterator[Callable[[Session], PageClient]]:
    """Opens a client of a session's page."""
    clients: list[PageClient] = []

    def open_one(session: Session) -> PageClient:
        sessions = Sessions(session.options)
        sessions.replace(session)
        clients.append(PageClient(sessions))
        return clients[-1]

    yield open_one
    for client in clients:
        client.close()


@pytest.fixture(scope="package")
def page(shop: Session, open_client: Callable[[Session], PageClient]) -> PageClient:
    """A client of the shop's page."""
    return open_client(shop)
