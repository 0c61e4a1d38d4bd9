"""Open sources as requests: rows, or aggregates computed by a store."""
