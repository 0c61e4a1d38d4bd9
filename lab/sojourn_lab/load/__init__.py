"""The load: the generators as processes of their own, their plans and arrival schedules."""
