"""Endurance: the whole stack under a steady load for a long time. Does memory stay where it was, is nothing lost?"""
