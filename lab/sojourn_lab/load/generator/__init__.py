"""The load generator: its own process, told by a plan, writing what it meant, sent and got."""
