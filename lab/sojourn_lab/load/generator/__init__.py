"""The load generator: a process of its own that reads a plan and records intended, sent and received requests."""
