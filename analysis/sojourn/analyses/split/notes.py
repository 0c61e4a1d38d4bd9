"""Notes of a split: unknown and unusable times, and the step that corrects each."""

from __future__ import annotations

import polars as pl

from sojourn.analyses.split.result import SplitResult
from sojourn.components.clock_offsets.correction import others_of
from sojourn.estimation.inferred import REFUSED
from sojourn.model.evidence import ENOUGH_IDLE, PHASES
from sojourn.model.formatting import counted, duration, percent, printable
from sojourn.model.frame import APP, TABLE
from sojourn.model.groups import LARGEST

FEW = 0.01  # of the requests: fewer are not mentioned
DOCTOR = "`sojourn doctor` with nginx's configuration and this log prints the lines for the app's server and for nginx."
OTHER_DOCTOR = "`sojourn doctor` with this log prints the lines for the app and for the proxy."
SEND = "The app has to send X-Queueing-Delay and X-Service-Time: "
OF_TABLE = "If the table has a column of service times or waits, name it: --columns service=COLUMN:UNIT or wait=…"
LENGTH = 1_500  # characters about the format of a log
ENOUGH = 100  # requests of a clock: one with fewer is not mentioned
CLOCKS = BACKENDS = 10  # with sentences of their own


def notes(result: SplitResult) -> list[str]:
    """Return one or two sentences per finding, most important first."""
    formats = result.records.formats
    sentences = [printable(each, 1_000) for each in result.records.warnings]
    sentences += result.records.apart
    sentences += [f"{printable(each.source, 100)}: {text}" for each in formats for text in each.warnings]
    sentences += [f"{printable(each.sentence, 300)} {printable(each.reading, LENGTH)}" for each in formats]
    app_log = result.audit.app_log
    sentences += [] if app_log is None else [printable(each, 600) for each in app_log.sentences]
    only_tables = bool(formats) and all(each.format == TABLE for each in formats)
    if not result.lacks_times:
        sentences += _inferences(result)
    coverage = result.audit.known
    total = coverage.total
    of_apps = only_tables and all(each.vantage == APP for each in formats)  # the note about the format says it
    if coverage.of_app and not only_tables:
        sentences.append(
            f"{total.of_app:,} of {counted(total.answered, 'answer')} are from an app server's own log. Its times "
            "begin when a worker takes the request: how long it waited until then is unknown, and so is the client's "
            "response time. The proxy's log has both; --app-log joins the two."
        )
    elif total.incomplete > FEW * total.answered and not of_apps and not result.lacks_times:
        sentences.append(
            f"{total.incomplete:,} of {counted(total.answered, 'answer')} came without the app's service time "
            f"({coverage.incomplete_backends()}): their queueing delay and service time are unknown. "
            + (OF_TABLE if only_tables else SEND + (OTHER_DOCTOR if formats else DOCTOR))
        )
    if coverage.unanswered > FEW * result.requests:
        counts = {"504": total.timed_out, "499": total.left, "other": total.failed}
        statuses = ", ".join(f"{status}: {count:,}" for status, count in counts.items() if count)
        sentences.append(
            f"{counted(coverage.unanswered, 'request')} to an app had no answer from it ({statuses}). Give --spans for "
            "the worker time spent on them."
        )
    if total.not_proxied > FEW * result.requests:
        sentences.append(f"{counted(total.not_proxied, 'request')} did not go to an app: nginx answered without one.")
    unstamped = max(total.by_duration - total.impossible - total.late_stamps, 0)
    if unstamped and not only_tables:
        why = (
            "because no valid X-Request-Start reached the app. `sojourn doctor` with nginx's configuration prints the "
            "lines that set it."
            if app_log is None
            else "from the service times of the app log. They contain the way to the app."
        )
        sentences.append(
            f"Known by durations alone (header time - service time): {counted(unstamped, 'queueing delay')}, {why}"
        )
    if total.late_stamps:
        sentences.append(
            f"Not used: {counted(total.late_stamps, 'logged stamp')} of {counted(result.requests, 'request')} "
            f"({percent(total.late_stamps / result.requests)}), later than the begin of the upstream request. Such a "
            "stamp is not the one that was sent: a variable that no header sends is evaluated when the line is "
            "written, and is the time of the end. The queueing delays are then known by durations alone (header time "
            "- service time). `sojourn doctor` with nginx's configuration prints the lines that log the stamp that is "
            "sent."
        )
    if total.impossible:
        sentences.append(
            f"Not used: {counted(total.impossible, 'queueing delay')} longer than the response. A client can forge a "
            "stamp that the app reads; a clock that was set while requests were under way looks the same."
        )
    sentences += _evidence(result)
    if result.audit.garbled:
        sentences.append(
            f"{counted(result.audit.garbled, 'answer')} had timing headers that are not durations; they count as "
            "absent."
        )
    return [*sentences, *_clocks(result)]


def _inferences(result: SplitResult) -> list[str]:
    """Return what is inferred of the backends whose apps reported nothing, those with most requests first."""
    sentences = [each.sentence for each in result.inferred[:BACKENDS]]
    if others := result.inferred[BACKENDS:]:
        refused = sum(each.result.verdict == REFUSED for each in others)
        sentences.append(
            f"Queueing delay of {counted(len(others), 'more backend')}: inferred for {len(others) - refused:,}, not "
            f"for {refused:,}. `inference` in the JSON has the reasons."
        )
    return sentences


def _clocks(result: SplitResult) -> list[str]:
    """Return which clocks are not known well, and which have not been looked at for a change."""
    if result.clock.is_empty():
        return []
    unsure = result.clock.filter((pl.col("requests") >= ENOUGH) & ~pl.col("idle"))
    sentences = [
        f"The clock of {printable(upstream, 60)} is known to ±{uncertainty * 1000:.0f} ms only: its queue was never "
        "seen empty in this window."
        for upstream, uncertainty in unsure.select("upstream", "uncertainty").head(CLOCKS).iter_rows()
    ]
    if len(more := unsure[CLOCKS:]):
        worst = float(more["uncertainty"].to_numpy().max())
        sentences.append(
            f"The clocks of {counted(len(more), 'more backend')} are known to ±{worst * 1000:.0f} ms only: their "
            "queues were never seen empty in this window."
        )
    if constant := others_of(result.clock):
        sentences.append(
            f"Drift and steps of clocks are those of the {LARGEST:,} backends with the most requests; the "
            f"{constant['values']:,} others have one offset each."
        )
    return sentences


def _evidence(result: SplitResult) -> list[str]:
    """Return what part of a component has another cause than its name says."""
    mean = sum(result.means.values())
    sentences = []
    if result.evidence.redirects > FEW * mean:
        sentences.append(
            f"{duration(result.evidence.redirects)} on average passed at upstreams whose answer an internal redirect "
            "replaced (error_page; or X-Accel-Redirect, if their status is not in the log). It is part of `retries`, "
            "although no attempt failed; whether it was waiting or work is unknown."
        )
    if (redirected := result.means["redirected"]) > FEW * mean:
        sentences.append(
            f"{duration(redirected)} on average passed at upstreams that an internal redirect of the app led to "
            "(X-Accel-Redirect): `redirected`. Whether it was waiting or work is unknown."
        )
    if result.evidence.way > FEW * mean:
        sentences.append(
            f"{duration(result.evidence.way)} on average is the way to the backends: requests to an idle one took "
            "as long to reach the app. It is part of the queueing delay, and the verdict counts it as network."
        )
    if result.evidence.way_in_doubt > FEW * mean:
        sentences.append(
            f"{duration(result.evidence.way_in_doubt)} on average may be the way to the backends instead of a queue: "
            f"fewer than {ENOUGH_IDLE} requests arrived at an idle backend, and its clock is not known better. The "
            "verdict counts it as unknown. Hosts with synchronised clocks, or a quieter hour in the log, show it."
        )
    for cause, component in zip(PHASES, ("upload", "send"), strict=True):
        if (locked := result.evidence.locked.get(cause, 0.0)) > FEW * mean:
            sentences.append(
                f"{duration(locked)} on average passed in a cache lock of nginx (`proxy_cache_lock`), which is looked "
                f"at in steps of 0.5 s. It is part of `{component}`, and the verdict counts it as queueing. More "
                "workers do not shorten it; `proxy_cache_lock_timeout` bounds it."
            )
    return sentences
