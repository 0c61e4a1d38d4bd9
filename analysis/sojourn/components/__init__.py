"""The components of every request: of its row alone, by the clock's offset, and inferred where the app is silent."""
