"""The cost that the Java middleware adds to a request: calls in a request to Tomcat, with and without the filter."""

from __future__ import annotations

import statistics
import subprocess
from pathlib import Path

from sojourn_lab.runtime.servers.java import compiled, tomcat_jars, tomcat_missing
from sojourn_lab.runtime.versions import versions_here

from benchmarks.rows import Measurements, Row, Settings, added_row

CALLS = 100_000
GOAL_US = 10.0


def java_rows(settings: Settings, measurements: Measurements) -> list[Row]:
    """Return what the filter adds to the servlet of `MiddlewareBench.java`; both in turns, in one warm JVM."""
    if (reason := tomcat_missing()) is not None:
        measurements.skipped.append(f"Java: {reason}")
        return []
    versions = versions_here({"tomcat"})
    measurements.versions |= {name: versions[name] for name in ("java", "tomcat")}
    settings.progress("Java")
    source = Path(__file__).parent / "MiddlewareBench.java"
    class_path = compiled(source, settings.folder / "java.classes", tomcat_jars())
    calls = settings.sized(CALLS, 1000)
    arguments = [str(calls), str(settings.repeats), str(settings.folder / "tomcat")]
    command = ["java", "-cp", class_path, source.stem, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    rounds = [tuple(map(float, line.split())) for line in done.stdout.splitlines()]
    if done.returncode or len(rounds) != settings.repeats:
        raise SystemExit(f"bench: java ended with {done.returncode}: {done.stderr.strip()}")
    bare, measured = zip(*rounds, strict=True)
    note = f"the servlet alone takes {statistics.median(bare):.2f} µs"
    return [added_row("Java servlet, the headers", bare, measured, goal=GOAL_US, note=note)]
