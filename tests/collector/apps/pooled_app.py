"""A FastAPI app with `def` handlers that hold their threads until /release, and with metrics.

In the multiprocess mode of prometheus_client, /metrics shows the sums of its files.
"""

import os
import threading

from fastapi import FastAPI
from prometheus_client import REGISTRY, CollectorRegistry, make_asgi_app
from prometheus_client.multiprocess import MultiProcessCollector
from sojourn_middleware import ASGIMiddleware

released = threading.Event()
app = FastAPI()


@app.get("/held")
def held():
    if not released.wait(60):
        raise TimeoutError("no request for /release within 60 s")
    return "held"


@app.get("/release")
async def release():
    released.set()
    return "released"


registry = REGISTRY
if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
app.mount("/metrics", make_asgi_app(registry))
app = ASGIMiddleware(app, prometheus=True, service="shop")
