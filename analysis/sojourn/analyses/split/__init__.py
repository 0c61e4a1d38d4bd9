"""Split response time into queueing delay, service time and the rest."""
