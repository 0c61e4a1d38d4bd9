"""The application servers that the lab starts as real processes; `table.py` lists them."""
