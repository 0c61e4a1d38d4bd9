"""What our middleware adds to a request: an app that does next to nothing is called with it and without it."""

from __future__ import annotations

import shutil
import statistics
import subprocess
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from typing import Any

from sojourn_lab.resources import resource_file
from sojourn_middleware import ASGIMiddleware, Telemetry, WSGIMiddleware

from benchmarks.called import asgi_app, asgi_seconds, wsgi_app, wsgi_seconds
from benchmarks.rows import Found, Row, Settings, Slope

CALLS = 20_000
MORE_HEADERS = (1, 8, 32, 64)
GOAL_US = 10.0

RACK = """
require ARGV[0]
calls = ARGV[1].to_i
answer = [200, { "content-type" => "text/plain" }, ["ok\\n"]]
app = ->(_env) { answer }
measured = Sojourn::Middleware.new(app)
usual = {
  "REQUEST_METHOD" => "GET", "PATH_INFO" => "/items/12345", "HTTP_HOST" => "shop.example", "rack.multithread" => false,
  "HTTP_X_REQUEST_START" => format("t=%.3f", Time.now.to_f), "HTTP_X_REQUEST_ID" => "4bf92f3577b34da6a3ce929d0e0e4736",
}
def cpu = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
[app, measured].each do |each|
  envs = Array.new(calls) { usual.dup }
  begin_ = cpu
  envs.each { |env| each.call(env) }
  puts((cpu - begin_) / calls)
end
"""


def run(settings: Settings) -> Found:
    """Python's two interfaces without and with spans, Ruby's one, and growth with the number of headers."""
    found = Found(versions={"opentelemetry-sdk": version("opentelemetry-sdk")})
    calls = settings.sized(CALLS, 100)
    kinds: dict[str, tuple[Any, Any, Any]] = {
        "WSGI": (wsgi_seconds, wsgi_app, WSGIMiddleware),
        "ASGI": (asgi_seconds, asgi_app, ASGIMiddleware),
    }
    for name, (seconds, app, middleware) in kinds.items():
        apps = {"bare": app, "ours": middleware(app)}
        costs = _in_turns(seconds, apps, calls, settings, name)
        note = f"no spans are wanted; the app alone takes {_median_us(costs['bare']):.2f} µs"
        found.rows.append(_added(f"{name}, the headers", costs, note))
        grown = [seconds(apps["ours"], calls, more) - seconds(app, calls, more) for more in MORE_HEADERS]
        sizes, cost = tuple(7.0 + more for more in MORE_HEADERS), tuple(1e6 * max(each, 1e-9) for each in grown)
        found.slopes.append(Slope(f"{name} middleware, a request", "headers of it", sizes, cost, "µs"))
    # Only now: what has imported OpenTelemetry is asked by the middleware whether it set a provider.
    for name, (seconds, app, middleware) in kinds.items():
        found.rows += _with_spans(name, seconds, app, middleware, settings, found)
    found.rows += _rack(calls, settings, found)
    return found


def _in_turns(
    seconds: Callable[..., float], apps: dict[str, Any], calls: int, settings: Settings, name: str
) -> dict[str, list[float]]:
    costs: dict[str, list[float]] = {which: [] for which in apps}
    for which, app in apps.items():
        settings.progress(f"{name}, {which}")
        seconds(app, max(calls // 10, 10))
    for _ in range(settings.repeats):
        for which, app in apps.items():
            costs[which].append(seconds(app, calls))
    return costs


def _median_us(costs: list[float]) -> float:
    return 1e6 * statistics.median(costs)


def _added(what: str, costs: dict[str, list[float]], note: str) -> Row:
    added = [1e6 * (ours - bare) for ours, bare in zip(costs["ours"], costs["bare"], strict=True)]
    return Row(
        f"{what}, added to a request",
        "µs",
        statistics.median(added),
        low=min(added),
        high=max(added),
        goal=GOAL_US,
        at="most",
        note=note,
    )


def _with_spans(
    name: str, seconds: Callable[..., float], app: Any, middleware: Any, settings: Settings, found: Found
) -> list[Row]:
    """With a span and measurements of every request, beside OpenTelemetry's own instrumentation."""
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415  (global instruments of the peer stay apart)
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415

    tracers, meters = TracerProvider(), MeterProvider([InMemoryMetricReader()])
    apps = {"bare": app, "ours": middleware(app, telemetry=Telemetry(tracers, meters))}
    package = f"opentelemetry-instrumentation-{name.lower()}"
    try:
        stock = import_module(f"opentelemetry.instrumentation.{name.lower()}").OpenTelemetryMiddleware
        apps["stock"] = stock(app, tracer_provider=tracers, meter_provider=meters)
        found.versions[package] = version(package)
    except ImportError:
        found.skipped.append(f"{name} beside the stock instrumentation: {package} is not installed")
    costs = _in_turns(seconds, apps, settings.sized(CALLS // 4, 50), settings, f"{name} with spans")
    ours = [1e6 * (one - bare) for one, bare in zip(costs["ours"], costs["bare"], strict=True)]
    what = f"{name}, a span and the delay's histogram, added to a request"
    if "stock" not in costs:
        return [Row(what, "µs", statistics.median(ours), low=min(ours), high=max(ours), note="spans are not exported")]
    theirs = [1e6 * (one - bare) for one, bare in zip(costs["stock"], costs["bare"], strict=True)]
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return [
        Row(
            what,
            "µs",
            statistics.median(ours),
            package,
            statistics.median(theirs),
            statistics.median(ratios),
            min(ratios),
            max(ratios),
            note="the same providers for both, spans are not exported; the peer records two histograms, we one",
        )
    ]


def _rack(calls: int, settings: Settings, found: Found) -> list[Row]:
    ruby = shutil.which("ruby")
    if ruby is None:
        found.skipped.append("Rack: ruby is not installed")
        return []
    script = settings.folder / "rack.rb"
    script.write_text(RACK)
    file = str(resource_file("middleware", "ruby", "sojourn.rb"))
    costs: dict[str, list[float]] = {"bare": [], "ours": []}
    for turn in range(settings.repeats):
        settings.progress(f"{turn + 1}/{settings.repeats} Rack")
        done = subprocess.run([ruby, script, file, str(calls)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"bench: ruby ended with {done.returncode}: {done.stderr.strip()}")
        bare, ours = map(float, done.stdout.split())
        costs["bare"].append(bare)
        costs["ours"].append(ours)
    said = subprocess.run([ruby, "-v"], capture_output=True, text=True, check=False).stdout.split()
    found.versions["ruby"] = said[1] if len(said) > 1 else ""
    return [_added("Rack, the headers", costs, f"the app alone takes {_median_us(costs['bare']):.2f} µs")]
