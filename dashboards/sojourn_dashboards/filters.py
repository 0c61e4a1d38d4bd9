r"""Dashboard variables, and how their values are inserted into SQL.

A value is hostile: a route or a request id is whatever a client sent. Grafana's ``sqlstring`` and ``singlequote`` leave
the backslash alone, and in ClickHouse a backslash escapes: ``\' OR 1=1 --`` would end the string. So values travel
percent-encoded (``percentencode`` for one value, ``queryparam`` for several), which has neither quotes nor
backslashes, and are decoded by the database.
"""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import CustomVariable, QueryVariable, TextBoxVariable
from grafana_foundation_sdk.models.dashboard import VariableOption, VariableRefresh, VariableSort

from sojourn_dashboards.datasource import source, sql

NOTHING = "-"  # stands for an unknown name: Grafana takes an empty value for All


def value_of(variable: str) -> str:
    """Return SQL: the text of a variable with one value."""
    return f"decodeURLComponent('${{{variable}:percentencode}}')"


def number_of(variable: str) -> str:
    """Return SQL: its number, or NULL, which no comparison matches."""
    return f"toFloat64OrNull({value_of(variable)})"


def chosen(column: str, variable: str) -> str:
    """Return SQL: ``column`` is among the chosen values; no condition where all are chosen."""
    # Within a value = is encoded: a parameter that ends in =- is the name that stands for none.
    values = (
        "arrayMap(p -> if(endsWith(p, '=-'), '', decodeURLComponent(replaceRegexpOne(p, '^var-[a-z_]+=', ''))), "
        f"splitByChar('&', '${{{variable}:queryparam}}'))"
    )
    return f"$__conditionalAll({column} IN {values}, ${variable})"


def limit(condition: str, variable: str) -> str:
    """Return SQL: ``condition``, or none where the box is empty."""
    return f"$__conditionalAll({condition}, ${variable})"


# Filters of rollup queries: the range of the dashboard, and the chosen names; a backend's workers have no route.
PLACE = f"{chosen('service', 'service')} AND {chosen('upstream', 'upstream')}"
ROLLUP = " AND ".join(["$__timeFilter(minute)"] + [chosen(name, name) for name in ("service", "route", "upstream")])
BACKEND = f"$__timeFilter(minute) AND {PLACE}"
SLO = f"ifNull({number_of('slo')}, 0.5)"


def names(
    variable: str,
    label: str,
    description: str,
    *,
    column: str = "",
    table: str = "rollup_minute",
    time: str = "minute",
    where: str = "1 = 1",
    multi: bool = True,
) -> QueryVariable:
    """Create a variable that lists the names in the range of the dashboard; unknown ones as ``-``."""
    text = sql(
        """
        SELECT DISTINCT if(toString(@name@) = '', '-', toString(@name@)) AS value
        FROM @table@ WHERE $__timeFilter(@time@) AND @where@ ORDER BY value LIMIT 1000
        """,
        name=column or variable,
        table=table,
        time=time,
        where=where,
    )
    built = (
        QueryVariable(variable)
        .label(label)
        .description(description)
        .datasource(source())
        .query({"editorType": "sql", "queryType": "sql", "rawSql": text, "refId": f"variable-{variable}"})
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.DISABLED)
        .multi(multi)
        .include_all(multi)
    )
    return built.current(VariableOption(text="All", value=["$__all"])) if multi else built


def box(variable: str, label: str, description: str, default: str = "") -> TextBoxVariable:
    """Create a text box variable."""
    option = VariableOption(selected=True, text=default, value=default)
    return (
        TextBoxVariable(variable)
        .label(label)
        .description(description)
        .default_value(default)
        .current(option)
        .options([option])
    )


def one_of(variable: str, label: str, description: str, values: tuple[str, ...]) -> CustomVariable:
    """Create a variable with one of several fixed values; the default is the first."""
    options = [VariableOption(selected=value == values[0], text=value, value=value) for value in values]
    return (
        CustomVariable(variable)
        .label(label)
        .description(description)
        .values(",".join(values))
        .current(options[0])
        .options(options)
        .allow_custom_value(False)
    )


def rollup_variables() -> list[QueryVariable]:
    """Return the variables of the rollups: service, route and backend."""
    services = chosen("service", "service")
    return [
        names("service", "Service", "The name nginx gives the service in its log."),
        names("route", "Route", "Template of the path, of the services chosen.", where=services),
        names("upstream", "Backend", "Address of the app server that answered; - without an upstream.", where=services),
    ]


def slo_box() -> TextBoxVariable:
    """Create the variable for the p99 limit."""
    return box("slo", "SLO: p99, s", "What 99 % of the responses should stay under, in seconds.", "0.5")
