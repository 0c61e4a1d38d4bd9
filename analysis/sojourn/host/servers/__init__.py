"""Query application servers for the queues before their workers: one client, one parser for each kind of server."""
