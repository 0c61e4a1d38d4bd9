"""The report: every analysis of the same requests on one page."""
