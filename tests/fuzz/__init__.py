"""Fuzzing: targets that take any bytes, a corpus for each, and the run that looks for more (see docs/reference)."""
