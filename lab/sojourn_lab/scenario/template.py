"""The scenario that `sojourn lab new` writes: whole as it is, with each setting that the user's own app may need."""

from __future__ import annotations

TEMPLATE = """\
# NAME: a load test of your own app, behind nginx, on this machine.
#
#   sojourn lab run NAME.toml --quick       a short run
#   sojourn lab run NAME.toml               the whole
#
# Lines that begin with "#:" are settings: remove the "#:" to use one. All durations are in seconds.

name = "NAME"
title = "NAME under load"
question = "How long do requests wait at this load, and how long do they take?"
shows = "Queueing delay and service time of my app."

# The random numbers: the same seed sends the same requests at the same instants.
seed = 1

# Measured seconds of each case, after the warm-up. `--duration` sets another.
duration = 20.0
warmup = 2.0

# How long a client waits for an answer.
timeout = 30.0

#: repeats = 3                       # rounds of all cases; tables show the medians
#: capture = true                    # record the packets of nginx and the app (needs tcpdump and its right)
#: analyses = ["routes", "goodput"]  # more figures: see lab/README.md
#: retries = {attempts = 3, backoff = 0.1, factor = 2.0, jitter = 0.5}   # of a client, after a failure

# The short form, for `--quick`.
[quick]
duration = 3.0

# Your app. The lab starts it, once for each of the backends, and nginx in front of them.
[topology]
backends = 1

# The command of your app, without a shell (for one: sh -c '…'). It must not go to the background. Placeholders:
#   {address}   host:port on which it must listen; {host} and {port} are its parts
#   {socket}    in their place, with `unix = true`: the path of a Unix socket
#   {workers} {threads} {backlog}   the numbers below
#   {name}      backend-1, backend-2, …
# Write {{ for a brace. Examples:
#   "gunicorn -w {workers} -b {address} app:app"
#   "uvicorn --host {host} --port {port} app:app"
#   "node server.js"                            with env = {PORT = "{port}"}
#   "bundle exec puma -b tcp://{address} -w {workers}"
#   "php -S {address} -t public"
command = "python3 -m http.server --bind {host} {port}"

#: cwd = "."                     # its folder, relative to this file (default: the folder of this file)
#: env = {APP_ENV = "test"}      # variables beside those of your shell; they are written to run.json: no secrets
ready = "/"                      # ready when this path is answered below 400 (default: when the port accepts)
ready_within = 30.0              # how long the start may take

# Requests that a backend serves at once: processes (or places) times threads. The lab relies on these numbers.
workers = 1
threads = 1
#: backlog = 64                  # for {backlog}
#: unix = true                   # the app listens on {socket}
#: keepalive = 32                # idle connections that nginx keeps open to the app (default: one for each request)
#: balancer = "least_conn"       # or "round_robin", "random_two"
#: nginx_workers = 1
#: proxy_read_timeout = 60.0     # nginx answers 504 after it

# A case is one load, measured separately. `paths`: path with query -> its share of the requests.
[[cases]]
name = "users"
paths = {"/" = 1}
# Two users; each sends its next request when it has the answer, after a pause of `think_time`.
load = {kind = "closed", concurrency = 2, think_time = 0.1}

[[cases]]
name = "arrivals"
paths = {"/" = 9, "/?page=2" = 1}
# Requests at random instants, 10 a second on average, however long answers take.
load = {kind = "poisson", rate = 10.0}
#: topology = {workers = 4}      # what is different for this case; the servers are restarted for it
#: timeout = 5.0
# Other loads:
#:load = {kind = "constant", rate = 10.0}
#:load = {kind = "ramp", from_rate = 0.0, to_rate = 20.0}
#:load = {kind = "steps", rates = [5.0, 50.0, 5.0], at = [4.0, 6.0]}
#:load = {kind = "diurnal", low = 2.0, high = 20.0, period = 20.0}

# What every run is judged by, stated before it: `metric` is a path into the result of a case, and it must be `below`,
# `above`, `equals` or `within` (a share) `of` a number or another path. `cases` is a pattern (default: all).
[[criteria]]
name = "no request failed"
metric = "client.failed"
equals = 0

[[criteria]]
name = "arrivals: 99 % of the answers come within 500 ms"
cases = "arrivals"
metric = "client.latency.corrected.p99"
below = 0.5

# These need the app's times: the middleware of docs/how-to/your-own-app.md, in the app.
#:[[criteria]]
#:name = "99 % of the requests wait less than 100 ms for a worker"
#:metric = "split.components.queueing_delay.p99"
#:below = 0.1
#
#:[[criteria]]
#:name = "the service time is below 200 ms on average"
#:metric = "split.components.service_time.mean"
#:below = 0.2
"""
MARK = "#:"
"""What begins a line with a setting that is not in force."""


def template_text(name: str) -> str:
    """Return the TOML of a scenario with this name."""
    return TEMPLATE.replace("NAME", name)
