"""Find missing configuration, and the line that adds it. See docs/reference/doctor.md."""
