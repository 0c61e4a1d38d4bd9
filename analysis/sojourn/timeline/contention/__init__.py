"""Services that depend on the load: what they share, estimated from a log."""
