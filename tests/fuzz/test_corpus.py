"""Every kept input of every target, and a few new ones, pass."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from fuzz import store_peer
from fuzz.corpus import NAMES, inputs, target
from fuzz.nasty import damaged

FRESH = 12
MOST_FILES, MOST_BYTES = 200, 300_000


@pytest.fixture(scope="module", autouse=True)
def store(make_lasting_store: Callable[[], str]) -> None:
    """The store of the process that the lines are sent to."""
    store_peer.use(make_lasting_store())


@pytest.mark.parametrize("name", NAMES)
def test_kept_inputs(name: str) -> None:
    module = target(name)
    files = inputs(name)
    assert files, "a target has a corpus"
    data = [path.read_bytes() for path in files]
    assert len(data) <= MOST_FILES
    assert sum(map(len, data)) <= MOST_BYTES
    if getattr(module, "JOINED", False):
        module.check(b"\n".join(data))
    else:
        for path, each in zip(files, data, strict=True):
            try:
                module.check(each)
            except BaseException as error:
                error.add_note(str(path))
                raise


@pytest.mark.parametrize("name", NAMES)
def test_fresh_inputs(name: str) -> None:
    """The same ones each time; ``make fuzz`` draws others."""
    module, rng = target(name), Random(name)
    fresh = [module.generated(rng) for _ in range(getattr(module, "FRESH", FRESH))]
    fresh += [damaged(data, rng) for data in fresh]
    for data in [b"\n".join(fresh)] if getattr(module, "JOINED", False) else fresh:
        module.check(data)


@pytest.mark.parametrize("name", ["log_lines", "stamp"])
def test_other_languages(name: str) -> None:
    """njs, Ruby and the store agree about every kept input, and about fresh ones."""
    module, rng = target(name), Random(name)
    module.compare([*(path.read_bytes() for path in inputs(name)), *(module.generated(rng) for _ in range(200))])
