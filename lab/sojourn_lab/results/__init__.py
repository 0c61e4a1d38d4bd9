"""What a run came to: its record, figures, findings, tables, report, and comparisons over runs."""
