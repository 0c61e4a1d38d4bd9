"""Alerts of Prometheus on the measurement itself: clocks, logs, exporters, labels.

An alert compares; without a sample it does not fire. What must not look like health without samples has an alert of its
own here: an exporter that is down, a log that is missing, a log without new records.
"""

from __future__ import annotations

from sojourn_dashboards.alerts import REFUSED, SILENCE, UNCERTAINTY
from sojourn_dashboards.prometheus_alerts import Alert
from sojourn_dashboards.promql import QUEUEING, increase_of

OFFSET = 0.1  # s, beyond its uncertainty
NEGATIVE = 0.01  # of the queueing delays
LEAST_NEGATIVE = 10  # in 15 min
AHEAD = 0.01  # of the lines
LEAST_AHEAD = 10  # in 15 min
LAG = 60  # s
UNREAD = 16 * 2**20  # bytes
LEAST_BEFORE = 360  # requests in the 6 h before the silence: one a minute
OTHERS = 0.01  # of the requests
LEAST_LINES = 100  # in 15 min
_EXPORTER = "job, instance"

_NEGATIVES = increase_of("sojourn_negative_queueing_delays_total", "15m", "service, upstream")
_DELAYS = increase_of(f"{QUEUEING}_count", "15m", "service, upstream")
_RECORDS_AHEAD = increase_of("sojourn_log_records_ahead_total", "15m", _EXPORTER)

MEASUREMENT_ALERTS = (
    Alert(
        "SojournClockOffset",
        f"abs(sojourn_clock_offset_seconds) > {OFFSET:g} + sojourn_clock_offset_uncertainty_seconds",
        "30m",
        "warning",
        "Clock offset",
        "the clock of {{ $labels.upstream }} is {{ $value | humanizeDuration }} off nginx's",
        f"For 30 min the app's clock differed from nginx's by more than {OFFSET:g} s beyond the uncertainty of the "
        "estimate. Queueing delays are corrected by the estimate; a change of the clock is not noticed at once.",
    ),
    Alert(
        "SojournClockUncertainty",
        f"sojourn_clock_offset_uncertainty_seconds > {UNCERTAINTY:g}",
        "30m",
        "warning",
        "Clock uncertainty",
        "the clock of {{ $labels.upstream }} is known only to {{ $value | humanizeDuration }}",
        f"For 30 min the bounds on the app's clock were more than {UNCERTAINTY:g} s from its estimate: queueing delays "
        "by the stamp are no better than that.",
    ),
    Alert(
        "SojournNegativeQueueingDelays",
        f"{_NEGATIVES} / {_DELAYS} > {NEGATIVE:g}\nand on (service, upstream) {_NEGATIVES} >= {LEAST_NEGATIVE}",
        "15m",
        "warning",
        "Clock offset",
        "{{ $value | humanizePercentage }} of the queueing delays at {{ $labels.upstream }} are negative",
        f"For 15 min more than {NEGATIVE * 100:.0f} % of the requests, at least {LEAST_NEGATIVE} in 15 min, began at "
        "the app before nginx sent them: the clocks differ by more than the known offset.",
    ),
    Alert(
        "SojournRecordsAhead",
        f"{_RECORDS_AHEAD} / {increase_of('sojourn_log_lines_total', '15m', _EXPORTER)} > {AHEAD:g}\n"
        f"and on ({_EXPORTER}) {_RECORDS_AHEAD} >= {LEAST_AHEAD}",
        "5m",
        "warning",
        "Clock offset",
        "{{ $value | humanizePercentage }} of the records at {{ $labels.instance }} are ahead of its clock",
        f"In 15 min more than {AHEAD * 100:.0f} % of the lines, at least {LEAST_AHEAD}, had an end more than 5 s ahead "
        "of the exporter's clock. Their requests are in no figure, and the signals to scale on are refused.",
    ),
    # By the series that a target served within a day, or by its job: the name of the job is the user's choice.
    Alert(
        "SojournExporterDown",
        "up == 0\nand on (job, instance) (last_over_time(sojourn_export_window_requests[1d]) "
        'or up{job=~".*sojourn.*"})',
        "5m",
        "warning",
        "Log not read",
        "the exporter {{ $labels.instance }} does not answer",
        "Prometheus has not reached the exporter for 5 min. Its figures are missing, and so are the alerts on them.",
    ),
    Alert(
        "SojournLogMissing",
        "sojourn_log_missing == 1 or sojourn_log_unopened == 1",
        "5m",
        "warning",
        "Log not read",
        "the log {{ $labels.log }} does not exist at {{ $labels.instance }}, or cannot be opened",
        "For 5 min a log that the exporter is configured to read did not exist, or could not be opened after a "
        "rotation: too many open files, or no read permission. sojourn_log_lost_bytes_total has what is lost.",
    ),
    Alert(
        "SojournLogLag",
        f"sojourn_log_lag_seconds > {LAG}",
        "5m",
        "warning",
        "Log not read",
        "records reach the exporter {{ $labels.instance }} {{ $value | humanizeDuration }} late",
        f"For 5 min every record was read more than {LAG} s after the end of its request. Gauges and alerts describe "
        "the past by as much.",
    ),
    Alert(
        "SojournLogUnread",
        f"sojourn_log_unread_bytes > {UNREAD}",
        "10m",
        "warning",
        "Log not read",
        "{{ $value | humanize1024 }}B of {{ $labels.log }} are not read yet",
        f"For 10 min more than {UNREAD // 2**20} MiB of a log were written and not read: the exporter is slower than "
        "nginx writes, or it has stopped reading.",
    ),
    Alert(
        "SojournLogSilent",
        f"time() - sojourn_log_last_record_timestamp_seconds > {SILENCE}\n"
        f"and on ({_EXPORTER}) {increase_of('sojourn_requests_total', '6h', _EXPORTER)} >= {LEAST_BEFORE}",
        "5m",
        "warning",
        "Log not read",
        "the latest record at {{ $labels.instance }} is {{ $value | humanizeDuration }} old",
        f"No request has ended in the logs for {SILENCE // 60} min, although the last 6 h had at least {LEAST_BEFORE} "
        "requests, one a minute.",
    ),
    Alert(
        "SojournLinesRefused",
        f"{increase_of('sojourn_log_refused_lines_total', '15m', _EXPORTER)}"
        f" / {increase_of('sojourn_log_lines_total', '15m', _EXPORTER)} > {REFUSED:g}\n"
        f"and on ({_EXPORTER}) {increase_of('sojourn_log_lines_total', '15m', _EXPORTER)} >= {LEAST_LINES}",
        "5m",
        "warning",
        "Lines refused",
        "{{ $value | humanizePercentage }} of the lines at {{ $labels.instance }} are refused",
        f"In 15 min more than {REFUSED * 100:g} % of at least {LEAST_LINES} lines were no records. "
        "sojourn_log_refused_lines_total has the reasons.",
    ),
    Alert(
        "SojournOtherLabels",
        f"{increase_of('sojourn_other_label_total', '1h', f'{_EXPORTER}, label')}"
        f" / on ({_EXPORTER}) group_left () {increase_of('sojourn_requests_total', '1h', _EXPORTER)} > {OTHERS:g}",
        "30m",
        "warning",
        "Too many label values",
        "{{ $value | humanizePercentage }} of the requests are counted under {{ $labels.label }} other",
        f"Over 1 h the label had more values than its limit for more than {OTHERS * 100:.0f} % of the requests, which "
        "are counted together under the value other.",
    ),
)
