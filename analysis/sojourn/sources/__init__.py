"""Open sources as requests: rows, or aggregates computed by a store. Also traces, and logs that are being written."""
