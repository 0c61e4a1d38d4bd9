"""The columns a split can be grouped by. Apart, so that the command line knows them without loading Polars."""

GROUPS = ("route", "upstream", "worker", "status", "service")
DEFAULT_GROUPS = ("route", "upstream")
