"""``sojourn simulate``: simulate a queue with generated requests and compare it with theory.

Wait: from a request's arrival to when a worker takes it; sojourn: from its arrival to its answer.
"""

from __future__ import annotations

from typing import Annotated

import typer

from sojourn.invocation.answer import answer
from sojourn.invocation.completion import BALANCERS, DISCIPLINES, beginning
from sojourn.invocation.options import AsJson
from sojourn.model.errors import ArgumentError
from sojourn.model.formatting import counted

MOST_WORKERS = 1_000_000


def simulate(
    arrivals: Annotated[
        str,
        typer.Option(
            metavar="KIND:…", help="poisson:RATE, constant:RATE, hyperexponential:RATE:CV2 (per s), trace:FILE."
        ),
    ],
    service: Annotated[
        str,
        typer.Option(
            metavar="KIND:…",
            help="exponential:MEAN, constant:MEAN, lognormal:MEAN:CV2, pareto:MEAN:ALPHA (s), trace:FILE.",
        ),
    ],
    workers: Annotated[int, typer.Option(metavar="N", min=1, max=100_000, help="Workers of each backend.")] = 1,
    backends: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="Backends.")] = 1,
    requests: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Number of requests. Default: all of a trace, else 1,000,000."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed; the same seed draws the same requests.")] = 1,
    discipline: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Discipline: fifo, lifo, adaptive_lifo, codel, deadline or sjf.",
            autocompletion=beginning(DISCIPLINES),
        ),
    ] = "fifo",
    balancer: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Balancer: round_robin, least_conn, two_choices or shared_queue.",
            autocompletion=beginning(BALANCERS),
        ),
    ] = "round_robin",
    timeout: Annotated[
        float | None, typer.Option(metavar="S", help="Time-out of an attempt; its work continues after it.")
    ] = None,
    capacity: Annotated[
        int | None, typer.Option(metavar="N", help="Maximum number of waiting requests per backend; more are rejected.")
    ] = None,
    retries: Annotated[int, typer.Option(metavar="N", help="Retries of a failed attempt.")] = 0,
    backoff: Annotated[float, typer.Option(metavar="S", help="Time from a failure to the next attempt.")] = 0.0,
    codel_target: Annotated[float, typer.Option(metavar="S", help="codel: acceptable wait.")] = 0.005,
    codel_interval: Annotated[float, typer.Option(metavar="S", help="codel: how long waits may exceed it.")] = 0.1,
    lifo_threshold: Annotated[
        int, typer.Option(metavar="N", help="adaptive_lifo: waiting requests above which the order is LIFO.")
    ] = 10,
    deadline_margin: Annotated[
        float, typer.Option(metavar="S", help="deadline: drop requests with at most this time left.")
    ] = 0.0,
    warmup: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the first requests that the figures leave out.")
    ] = 0.05,
    as_json: AsJson = False,
) -> None:
    """Simulate a queue and compare it with theory.

    Wait: from a request's arrival to when a worker takes it. Sojourn: from its arrival to its answer, or its last
    failure.
    """
    if workers * backends > MOST_WORKERS:
        raise typer.BadParameter(
            f"{counted(workers, 'worker')} × {counted(backends, 'backend')}: the maximum is {MOST_WORKERS:,} in all",
            param_hint="--workers",
        )
    from sojourn.analyses.simulate.run import simulate as run  # noqa: PLC0415 - numba takes its time to load

    try:
        result = run(
            arrivals, service, workers=workers, backends=backends, requests=requests, seed=seed, discipline=discipline,
            balancer=balancer, timeout=timeout, capacity=capacity, retries=retries, backoff=backoff,
            codel_target=codel_target, codel_interval=codel_interval, lifo_threshold=lifo_threshold,
            deadline_margin=deadline_margin, warmup=warmup,
        )  # fmt: skip
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from None
    answer(result, as_json=as_json)
