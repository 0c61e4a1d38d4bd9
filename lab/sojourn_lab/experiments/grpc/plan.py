"""The plan of a gRPC client process: the plan of any generator, and the addresses of its calls."""

from __future__ import annotations

from typing import Annotated

import msgspec

from sojourn_lab.load.plan import Plan


class GrpcPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`channels` connections, made one after the other to the `addresses` by turns, and kept for all of the case.

    An address is `host:port`. Each call of the plan's open load goes over a channel drawn for it, as calls of that many
    independent clients would.
    """

    plan: Plan
    addresses: Annotated[list[str], msgspec.Meta(min_length=1)]
    channels: Annotated[int, msgspec.Meta(ge=1)]


def addresses_of_channels(plan: GrpcPlan) -> list[str]:
    """Return the address of each channel, in turn, fixed for the whole case."""
    return [plan.addresses[number % len(plan.addresses)] for number in range(plan.channels)]
