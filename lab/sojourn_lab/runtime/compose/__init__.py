"""The parts of a run in containers: `sojourn lab run NAME --runtime compose`.

The generator remains on this machine and requests the published port of nginx, so the engine's own forwarding is in the
response time the client sees and in none of nginx's. Everything nginx and the apps measure is between containers.
"""

from sojourn_lab.runtime.compose.refusals import why_not_in_containers
from sojourn_lab.runtime.compose.runtime import ComposeRuntime

__all__ = ["ComposeRuntime", "why_not_in_containers"]
