"""One folder per question."""
