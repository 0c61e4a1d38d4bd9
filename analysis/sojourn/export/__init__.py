"""Export a log that is being written as metrics: Prometheus (OpenMetrics) and OTLP.

``metrics`` names every metric; ``tally`` counts requests into histograms and counters; ``state`` and ``signals``
compute the gauges of a recent window; ``exporter`` reads the logs and keeps all of it up to date; ``exposition`` serves
it to Prometheus by prometheus_client, ``otlp`` sends it by opentelemetry-sdk.
"""
