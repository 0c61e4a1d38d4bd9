"""The Prometheus data source: its queries, variables and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import prometheus
from grafana_foundation_sdk.builders.dashboard import QueryVariable
from grafana_foundation_sdk.models.common import DataSourceRef
from grafana_foundation_sdk.models.dashboard import (
    DataTransformerConfig,
    VariableOption,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat, QueryEditorMode

PROMETHEUS, PROMETHEUS_UID = "prometheus", "sojourn-prometheus"

# Grafana inserts values of these as regular expressions, escaped. All is .*, which matches requests without a name too.
SERVICE = 'service=~"$service"'
BACKEND = f'{SERVICE},upstream=~"$upstream"'
GROUP = f'{BACKEND},route=~"$route"'
WINDOW = "$__rate_interval"
"""Range of a rate in a panel: at least four scrape intervals, and the step of the panel at least."""
VARIABLE = "PrometheusVariableQueryEditor-VariableQuery"
"""Reference of a variable's query, as Grafana's editor of variables stores it."""


def prometheus_source() -> DataSourceRef:
    """Return the data source: uid ``sojourn-prometheus``."""
    return DataSourceRef(type_val=PROMETHEUS, uid=PROMETHEUS_UID)


@dataclass(frozen=True)
class Series:
    """One query of a panel.

    Attributes:
        name: name of the series, or of the column in a table; ``{{label}}`` is the value of a label.
        expr: PromQL.
        exemplars: whether single requests are shown as points that link to the request.
    """

    name: str
    expr: str
    exemplars: bool = False

    def target(self, format_: PromQueryFormat, number: int) -> prometheus.Dataquery:
        """Return the target of a panel: at the end of the range for a table, over the range otherwise.

        Args:
            format_: what the answer is converted to.
            number: position among the panel's targets, from 0.
        """
        query = (
            prometheus.Dataquery()
            .datasource(prometheus_source())
            .editor_mode(QueryEditorMode.CODE)
            .expr(self.expr)
            .format(format_)
            .legend_format(self.name)
            .ref_id(letter(number))
            .exemplar(self.exemplars)
        )
        return query.instant() if format_ == PromQueryFormat.TABLE else query.range()


def letter(number: int) -> str:
    """Return the reference of a panel's target by its position, from A."""
    return chr(ord("A") + number)


def joined_columns(labels: Sequence[str], series: Sequence[Series]) -> list[DataTransformerConfig]:
    """Return transformations that make one table of several queries: a row for each set of labels."""
    values = ["Value"] if len(series) == 1 else [f"Value #{letter(number)}" for number in range(len(series))]
    order = [*labels, *values]
    return [
        DataTransformerConfig("merge", options={}),
        DataTransformerConfig(
            "organize",
            options={
                "excludeByName": {"Time": True},
                "indexByName": {name: place for place, name in enumerate(order)},
                "renameByName": {value: one.name for value, one in zip(values, series, strict=True)},
            },
        ),
    ]


def label_variable(name: str, label: str, description: str, series: str) -> QueryVariable:
    """Create a variable that lists the values of a label in the range of the dashboard.

    Args:
        name: the label, and the variable.
        label: text before the box.
        description: what the values are.
        series: selector of the series that have the label.
    """
    text = f"label_values({series}, {name})"
    return (
        QueryVariable(name)
        .label(label)
        .description(description)
        .datasource(prometheus_source())
        .query({"qryType": 1, "query": text, "refId": VARIABLE})
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(VariableOption(text="All", value=["$__all"]))
    )


def group_variables() -> list[QueryVariable]:
    """Return the variables by which requests are grouped: service, route and backend."""
    return [
        label_variable("service", "Service", "The name nginx gives the service in its log.", "sojourn_requests_total"),
        label_variable(
            "route",
            "Route",
            "Name of the route, of the services chosen; (unnamed) stands for paths without a name, other for routes "
            "beyond the exporter's limit.",
            f"sojourn_response_time_seconds_count{{{SERVICE}}}",
        ),
        label_variable(
            "upstream",
            "Backend",
            "Address of the app server that answered, of the services chosen.",
            f"sojourn_requests_total{{{SERVICE}}}",
        ),
    ]
