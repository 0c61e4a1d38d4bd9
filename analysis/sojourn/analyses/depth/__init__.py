"""Count requests in system over time and on arrival, and how busy the workers were."""
