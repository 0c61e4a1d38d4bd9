"""The scenario file: load, topology, cases, criteria and columns; how it is read, scaled and changed by options."""
