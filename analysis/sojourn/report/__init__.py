"""One self-contained HTML file: opens without a network, and hostile text in a log does nothing in it."""

from sojourn.report.html import write_html

__all__ = ["write_html"]
