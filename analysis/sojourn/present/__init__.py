"""Lay results out: sections, tables, charts and pictures, on terminals, pages and in notebooks; write whole files."""
