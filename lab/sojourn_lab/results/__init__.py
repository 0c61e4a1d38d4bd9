"""Results of a run: its record, figures, findings, tables, report, and comparisons of runs."""
