"""Read the queues before accept() off captured packets, joined to the log."""
