"""Lay results out: sections, tables, charts, terminal, page, notebook."""
