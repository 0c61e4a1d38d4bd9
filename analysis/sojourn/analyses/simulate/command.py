"""``sojourn simulate``: a queue with made-up requests, theory beside it.

Wait: from a request's arrival to when a worker takes it; sojourn: from its arrival to its answer.
"""

from __future__ import annotations

from typing import Annotated

import typer

from sojourn.command.answer import answer
from sojourn.command.completion import BALANCERS, DISCIPLINES, beginning
from sojourn.command.options import AsJson

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
        int | None, typer.Option(metavar="N", min=1, help="Default: all of a trace of arrivals, else 1,000,000.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="The same seed draws the same requests.")] = 1,
    discipline: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="fifo, lifo, adaptive_lifo, codel, deadline or sjf.",
            autocompletion=beginning(DISCIPLINES),
        ),
    ] = "fifo",
    balancer: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="round_robin, least_conn, two_choices or shared_queue.",
            autocompletion=beginning(BALANCERS),
        ),
    ] = "round_robin",
    timeout: Annotated[
        float | None, typer.Option(metavar="S", help="Clients give up so long after an attempt; its work goes on.")
    ] = None,
    capacity: Annotated[
        int | None, typer.Option(metavar="N", help="So many may wait at a backend; one more is rejected.")
    ] = None,
    retries: Annotated[int, typer.Option(metavar="N", help="Attempts after one that failed.")] = 0,
    backoff: Annotated[float, typer.Option(metavar="S", help="From a failure to the next attempt.")] = 0.0,
    codel_target: Annotated[float, typer.Option(metavar="S", help="codel: a wait that is too long.")] = 0.005,
    codel_interval: Annotated[float, typer.Option(metavar="S", help="codel: for how long it may be so.")] = 0.1,
    lifo_threshold: Annotated[int, typer.Option(metavar="N", help="adaptive_lifo: turns when more wait.")] = 10,
    deadline_margin: Annotated[
        float, typer.Option(metavar="S", help="deadline: drops who has no more than this left.")
    ] = 0.0,
    warmup: Annotated[float, typer.Option(metavar="SHARE", help="Leave so many out of the figures, the first.")] = 0.05,
    as_json: AsJson = False,
) -> None:
    """Simulate a queue, with theory beside it where it is exact.

    Wait: from a request's arrival to when a worker takes it. Sojourn: from its arrival to its answer, or its last
    failure.
    """
    if workers * backends > MOST_WORKERS:
        raise typer.BadParameter(f"at most {MOST_WORKERS:,} workers in all")
    from sojourn.analyses.simulate.run import simulate as run  # noqa: PLC0415 - numba takes its time to load
    from sojourn.model.errors import ArgumentError  # noqa: PLC0415

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
