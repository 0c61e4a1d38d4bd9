"""A collector with a bounded channel: heartbeats through nginx, consumers behind the channel, a broker behind those."""
