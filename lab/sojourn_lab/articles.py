"""The articles whose experiments the scenarios repeat."""

from __future__ import annotations

ARTICLES = {
    "004": "Queueing delay with nginx and one-process app servers (Zendesk Engineering)",
    "000": "Load testing a dashboard service (Fitbit Engineering)",
    "001": "Load testing a WebSocket feature-flag service (FeatBit)",
    "002": "Load testing a platform: beating the baseline (Achievers, 2023)",
    "003": "Load testing for 50 million concurrent viewers (Mux)",
    "": "Not from an article",
}
"""By the number a scenario names in `article`, in the order they are shown."""
