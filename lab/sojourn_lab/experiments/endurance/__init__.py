"""Endurance: the whole stack under a steady load for a long time. Memory must be flat, and nothing may be lost."""
