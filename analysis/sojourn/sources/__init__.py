"""Open whatever SOURCES name and answer with requests: rows, or aggregates pushed down to a store."""
