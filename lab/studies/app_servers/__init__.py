"""What a worker is in each app server, with the figures of a run of the scenario `app-servers`."""
