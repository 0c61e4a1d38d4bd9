"""Tables of requests (CSV, TSV, Parquet): the roles of their columns, and their rows as lines of a log."""
