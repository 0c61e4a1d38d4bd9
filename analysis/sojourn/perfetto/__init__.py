"""The timeline of workers and waiting requests as a Perfetto trace, for ui.perfetto.dev."""
