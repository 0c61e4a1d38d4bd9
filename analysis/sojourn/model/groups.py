"""The columns that a split can be grouped by, and short names of times, in a module that loads without Polars."""

GROUPS = ("route", "upstream", "worker", "status", "service")
DEFAULT_GROUPS = ("route", "upstream")
TIMES = {"response": "request_time", "queueing": "queueing_delay", "service": "service_time"}
