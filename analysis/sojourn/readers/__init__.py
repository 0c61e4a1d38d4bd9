"""Read files into frames: logs of Sojourn's format and of others, Parquet, spans, logs of apps, captures of packets."""
