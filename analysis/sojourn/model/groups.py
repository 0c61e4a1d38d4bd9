"""The columns that a split can be grouped by, in a module that loads without Polars."""

GROUPS = ("route", "upstream", "worker", "status", "service")
DEFAULT_GROUPS = ("route", "upstream")
