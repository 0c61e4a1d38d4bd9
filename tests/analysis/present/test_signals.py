"""Signals end a command in order, whatever an engine makes of them."""

from __future__ import annotations

import os
import signal
import threading

import duckdb
import polars as pl
import pytest
from sojourn.present.signals import ended_in_order, signals_received


@pytest.fixture(autouse=True)
def _default_handlers() -> object:
    """Handlers as a program begins with; pytest-timeout and others may have installed some."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Interrupted:
    """Rows during whose reading the user interrupts."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        return pl.DataFrame({"x": [1]}).__arrow_c_stream__(requested_schema)


def test_sigint_in_a_query_of_duckdb_is_an_interruption() -> None:
    later = threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT])
    later.start()
    with pytest.raises(KeyboardInterrupt), ended_in_order(), duckdb.connect() as engine:
        engine.sql("SELECT sum(a.range * b.range) FROM range(40000) a, range(40000) b").fetchall()
    later.join()


def test_sigint_while_duckdb_reads_rows_is_an_interruption() -> None:
    with duckdb.connect() as engine, pytest.raises(KeyboardInterrupt), ended_in_order():
        engine.register("rows", Interrupted())


def test_other_errors_pass() -> None:
    with pytest.raises(RuntimeError, match="of another kind"), ended_in_order():
        raise RuntimeError("of another kind")


def test_sigterm_ends_and_sighup_remains_ignored() -> None:
    with ended_in_order():
        os.kill(os.getpid(), signal.SIGHUP)
    with pytest.raises(SystemExit) as end, ended_in_order():
        os.kill(os.getpid(), signal.SIGTERM)
    assert end.value.code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_first_signal_asks_and_a_second_one_interrupts() -> None:
    with signals_received() as received:
        assert not received
        os.kill(os.getpid(), signal.SIGHUP)  # ignored before
        os.kill(os.getpid(), signal.SIGTERM)
        assert received == [signal.SIGTERM]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_signals_are_left_alone_outside_of_the_main_thread() -> None:
    seen: list[object] = []

    def look() -> None:
        with signals_received(), ended_in_order():
            seen.extend(signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler, signal.SIG_DFL]
