"""The cost that the middleware adds to a request: a minimal app is called with and without it."""

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

from benchmarks.app_calls import asgi_app, asgi_seconds, wsgi_app, wsgi_seconds
from benchmarks.middleware_go import go_rows
from benchmarks.middleware_java import java_rows
from benchmarks.middleware_node import node_rows
from benchmarks.middleware_php import php_rows
from benchmarks.rows import Measurements, Row, Settings, Slope, added_row, compared_row

CALLS = 20_000
MORE_HEADERS = (1, 8, 32, 64)
GOAL_US = 10.0

RACK = """
require "sojourn-middleware"
calls = ARGV[0].to_i
answer = [200, { "content-type" => "text/plain" }, ["ok\\n"]]
app = ->(_env) { answer }
measured = Sojourn::Middleware.new(app)
usual = {
  "REQUEST_METHOD" => "GET", "PATH_INFO" => "/items/12345", "HTTP_HOST" => "shop.example", "rack.multithread" => false,
  "HTTP_X_REQUEST_START" => format("t=%.3f", Time.now.to_f), "HTTP_X_REQUEST_ID" => "4bf92f3577b34da6a3ce929d0e0e4736",
}
apps = [app, measured]
begin
  require "prometheus/client"
  apps << Sojourn::Middleware.new(app, prometheus: true)
rescue LoadError
  # One figure less.
end
def cpu = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
apps.each do |each|
  envs = Array.new(calls) { usual.dup }
  begin_ = cpu
  envs.each { |env| each.call(env) }
  puts((cpu - begin_) / calls)
end
"""


def run(settings: Settings) -> Measurements:
    """Measure WSGI and ASGI alone, with metrics and with spans, other languages, and the growth with the headers."""
    measurements = Measurements(versions={"opentelemetry-sdk": version("opentelemetry-sdk")})
    calls = settings.sized(CALLS, 100)
    kinds: dict[str, tuple[Any, Any, Any]] = {
        "WSGI": (wsgi_seconds, wsgi_app, WSGIMiddleware),
        "ASGI": (asgi_seconds, asgi_app, ASGIMiddleware),
    }
    for name, (seconds, app, middleware) in kinds.items():
        apps = {"bare": app, "ours": middleware(app), **_with_metrics(name, app, middleware, measurements)}
        costs = _in_turns(seconds, apps, calls, settings, name)
        note = f"no spans are wanted; the app alone takes {_median_us(costs['bare']):.2f} µs"
        measurements.rows.append(_added(f"{name}, the headers", costs, note))
        if "metrics" in costs:
            measurements.rows.append(_metrics_row(name, costs))
        grown = [seconds(apps["ours"], calls, more) - seconds(app, calls, more) for more in MORE_HEADERS]
        sizes, cost = tuple(7.0 + more for more in MORE_HEADERS), tuple(1e6 * max(each, 1e-9) for each in grown)
        measurements.slopes.append(Slope(f"{name} middleware, a request", "headers of it", sizes, cost, "µs"))
    # Last: once OpenTelemetry is imported, the middleware checks whether a provider is set.
    for name, (seconds, app, middleware) in kinds.items():
        measurements.rows += _with_spans(name, seconds, app, middleware, settings, measurements)
    measurements.rows += _rack(calls, settings, measurements)
    measurements.rows += go_rows(settings, measurements)
    measurements.rows += php_rows(settings, measurements)
    measurements.rows += node_rows(settings, measurements)
    measurements.rows += java_rows(settings, measurements)
    return measurements


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
    bare, measured = ([1e6 * seconds for seconds in costs[name]] for name in ("bare", "ours"))
    return added_row(what, bare, measured, goal=GOAL_US, note=note)


def _with_metrics(name: str, app: Any, middleware: Any, measurements: Measurements) -> dict[str, Any]:
    """Return the app with the histograms of Prometheus; nothing if its client library is not installed."""
    try:
        from prometheus_client import CollectorRegistry  # noqa: PLC0415
    except ImportError:
        measurements.skipped.append(f"{name} with metrics: prometheus_client is not installed")
        return {}
    measurements.versions["prometheus_client"] = version("prometheus_client")
    return {"metrics": middleware(app, prometheus=CollectorRegistry())}


def _metrics_row(name: str, costs: dict[str, list[float]]) -> Row:
    """Return the row of what the histograms of Prometheus add to a request that has the headers already."""
    headers, metrics = ([1e6 * seconds for seconds in costs[which]] for which in ("ours", "metrics"))
    note = "to the headers: two histograms, in the memory of one process; most of it is the client library's"
    return added_row(f"{name}, Prometheus's histograms", headers, metrics, goal=GOAL_US, note=note)


def _with_spans(
    name: str, seconds: Callable[..., float], app: Any, middleware: Any, settings: Settings, measurements: Measurements
) -> list[Row]:
    """Measure with a span and metrics for every request, against OpenTelemetry's own instrumentation."""
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415  (global instruments of the peer stay apart)
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415

    tracers, meters = TracerProvider(), MeterProvider([InMemoryMetricReader()])
    apps = {"bare": app, "ours": middleware(app, telemetry=Telemetry(tracers, meters))}
    package = f"opentelemetry-instrumentation-{name.lower()}"
    try:
        stock = import_module(f"opentelemetry.instrumentation.{name.lower()}").OpenTelemetryMiddleware
        apps["stock"] = stock(app, tracer_provider=tracers, meter_provider=meters)
        measurements.versions[package] = version(package)
    except ImportError:
        measurements.skipped.append(f"{name} beside the stock instrumentation: {package} is not installed")
    costs = _in_turns(seconds, apps, settings.sized(CALLS // 4, 50), settings, f"{name} with spans")
    added = [1e6 * (one - bare) for one, bare in zip(costs["ours"], costs["bare"], strict=True)]
    what = f"{name}, a span and the delay's histogram, added to a request"
    if "stock" not in costs:
        return [
            Row(what, "µs", statistics.median(added), low=min(added), high=max(added), note="spans are not exported")
        ]
    theirs = [1e6 * (one - bare) for one, bare in zip(costs["stock"], costs["bare"], strict=True)]
    note = "the same providers for both, spans are not exported; the peer records two histograms, we one"
    return [compared_row(what, "µs", added, package, theirs, note=note)]


def _rack(calls: int, settings: Settings, measurements: Measurements) -> list[Row]:
    ruby = shutil.which("ruby")
    if ruby is None:
        measurements.skipped.append("Rack: ruby is not installed")
        return []
    script = settings.folder / "rack.rb"
    script.write_text(RACK)
    library = str(resource_file("middleware", "ruby", "lib"))
    costs: dict[str, list[float]] = {"bare": [], "ours": [], "metrics": []}
    for turn in range(settings.repeats):
        settings.progress(f"{turn + 1}/{settings.repeats} Rack")
        done = subprocess.run([ruby, "-I", library, script, str(calls)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"bench: ruby ended with {done.returncode}: {done.stderr.strip()}")
        # Without the metrics if their gem is not installed.
        for name, seconds in zip(costs, done.stdout.split(), strict=False):
            costs[name].append(float(seconds))
    output = subprocess.run([ruby, "-v"], capture_output=True, text=True, check=False).stdout.split()
    measurements.versions["ruby"] = output[1] if len(output) > 1 else ""
    rows = [_added("Rack, the headers", costs, f"the app alone takes {_median_us(costs['bare']):.2f} µs")]
    if costs["metrics"]:
        rows.append(_metrics_row("Rack", costs))
    else:
        measurements.skipped.append("Rack with metrics: the gem prometheus-client is not installed")
    return rows
