"""gRPC calls over long-lived connections, balanced when a connection is made or with every call.

servers.py    the gRPC servers of a case, their ports and logs
proxy.py      configuration of nginx where it balances calls
plan.py       the plan of the client
client.py     the client: its own process, `python -m sojourn_lab.experiments.grpc.client PLAN.json`
figures.py    from the client's records and the servers' logs to figures
case.py       one case from start to end
"""

from __future__ import annotations

from sojourn_lab.experiments.stage import Stage
from sojourn_lab.results.run_context import Outcome


def run_case(stage: Stage) -> Outcome:
    """Return the result of a case of gRPC calls; LabError if it cannot run."""
    # Late: the client is a process of this package and needs nothing that runs a case.
    from sojourn_lab.experiments.grpc.case import measured_case  # noqa: PLC0415

    return measured_case(stage)
