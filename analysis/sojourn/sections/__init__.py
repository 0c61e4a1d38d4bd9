"""What an analysis found, laid out for people: a ``Section`` is printed, or set in a page of the report."""
