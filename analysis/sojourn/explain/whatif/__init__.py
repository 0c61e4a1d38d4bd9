"""What another set-up would have made of the same requests: a replay of measured arrivals and service times."""

from sojourn.explain.whatif.result import Variant, WhatIfResult
from sojourn.explain.whatif.whatif import whatif

__all__ = ["Variant", "WhatIfResult", "whatif"]
