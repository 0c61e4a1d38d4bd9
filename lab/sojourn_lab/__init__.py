"""Run scenarios with a known truth: real nginx, real app servers, a generator that knows its lag."""
