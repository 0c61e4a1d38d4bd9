"""What is missing, and the line that mends it. See docs/reference/doctor.md."""
