"""Place requests in time: visits, waits, held workers, load. Shared by the analyses, the movie and the exporter."""
