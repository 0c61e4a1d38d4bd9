"""``refuse_beyond_memory``: an analysis of more requests than fit is refused before they are loaded."""

from __future__ import annotations

from pathlib import Path

import pytest
import sojourn
from sojourn.model import memory as model_memory
from sojourn.model.memory import REPLAY_BYTES, USABLE, VISIT_BYTES, refuse_beyond_memory

SHOP = Path(__file__).parents[3] / "docs/examples/shop.jsonl.gz"
VISITS = 2_979  # of the example


def with_room_for(requests: int, monkeypatch: pytest.MonkeyPatch, each: int = VISIT_BYTES) -> None:
    monkeypatch.setattr(model_memory, "memory", lambda: round(requests * each / USABLE) + 1)


def test_as_many_as_fit_are_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with_room_for(VISITS, monkeypatch)
    refuse_beyond_memory(VISITS)
    with pytest.raises(sojourn.SojournError, match=r"2,980 requests .* hold 2,979 of them; narrow them with --since"):
        refuse_beyond_memory(VISITS + 1)


def test_blame_and_whatif_are_refused_and_a_narrower_window_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for question, each in ((sojourn.blame, VISIT_BYTES), (sojourn.whatif, REPLAY_BYTES)):
        with_room_for(VISITS - 1, monkeypatch, each)
        with pytest.raises(sojourn.SojournError, match=r"requests placed in time: .* of memory hold 2,978"):
            question(SHOP)
    with_room_for(VISITS - 1, monkeypatch)
    begun = sojourn.read(SHOP).rows.collect()["time"].min()
    assert sojourn.blame(SHOP, since=begun).requests < VISITS


def test_visits_of_every_wait_count_those_of_unknown_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    with_room_for(VISITS, monkeypatch)
    assert len(sojourn.visits(SHOP)) == VISITS
    with pytest.raises(sojourn.SojournError, match="3,087 requests"):
        sojourn.visits(SHOP, waits_unknown=True)
