"""The report: every analysis of the same requests on one page."""

from sojourn.report.html import html, write_html

__all__ = ["html", "write_html"]
