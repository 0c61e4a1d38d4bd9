"""Queries as version 4 of Grafana's ClickHouse plugin stores them, and the one data source they all ask."""

from __future__ import annotations

from textwrap import dedent

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models.common import DataSourceRef

PLUGIN = "grafana-clickhouse-datasource"
PLUGIN_VERSION = "4.20.0"  # a query without a version of 4 is taken for one of 3 and rewritten
UID = "sojourn"

# The plugin's numbers for what a result is made into, and the names its editor shows for them.
TIME_SERIES, TABLE, TRACE = 0, 1, 3
QUERY_TYPES = {TIME_SERIES: "timeseries", TABLE: "table", TRACE: "traces"}


def source() -> DataSourceRef:
    """Return the data source of every panel: uid ``sojourn``."""
    return DataSourceRef(type_val=PLUGIN, uid=UID)


class ClickHouseQuery(Dataquery, Builder[Dataquery]):
    """One target of a panel.

    Args:
        text: SQL with the plugin's macros and Grafana's variables.
        format_: TIME_SERIES (a time column, long or wide), TABLE or TRACE.
        ref_id: its letter in the panel.
    """

    def __init__(self, text: str, format_: int = TABLE, ref_id: str = "A") -> None:
        self.text = text
        self.format = format_
        self.ref_id = ref_id

    def build(self) -> Dataquery:
        """Return itself: nothing has to be collected."""
        return self

    def to_json(self) -> dict[str, object]:
        """Return its form in the JSON of a dashboard or the model of an alert rule."""
        return {
            "datasource": {"type": PLUGIN, "uid": UID},
            "editorType": "sql",
            "format": self.format,
            "pluginVersion": PLUGIN_VERSION,
            "queryType": QUERY_TYPES[self.format],
            "rawSql": self.text,
            "refId": self.ref_id,
        }


def sql(text: str, **parts: str) -> str:
    """Return ``text`` with each ``@name@`` replaced by SQL of this package; never by a value."""
    text = dedent(text).strip()
    for name, part in parts.items():
        text = text.replace(f"@{name}@", part)
    if "@" in text:
        raise ValueError(f"nothing to put in for a name between @ in: {text}")
    return text
