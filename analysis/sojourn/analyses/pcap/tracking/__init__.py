"""Follow TCP connections and the HTTP exchanges in them, packet by packet."""
