"""Export a log that is being written as metrics: Prometheus (OpenMetrics) and OTLP.

``metrics`` names every metric, ``settings`` says what is exported; ``tally`` counts requests into ``histograms`` and
counters, by limited ``labels``; ``state`` computes the gauges of a recent window, with what ``memory`` knows of earlier
ones; ``wasted`` matches abandoned requests with spans; ``refusal`` replays recent requests and withholds the signals to
scale on where the replay waits less than they did. ``exporter`` reads the logs and keeps all of it up to date;
``exposition`` serves it to Prometheus by prometheus_client, ``otlp`` sends it by opentelemetry-sdk.
"""
