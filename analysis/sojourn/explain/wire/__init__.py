"""What a capture says: connections, requests on them, both sides of the proxy, and the queues before accept()."""
