"""A WSGI app with metrics in several processes: /metrics shows those of all of them."""

import time

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.multiprocess import MultiProcessCollector
from sojourn_middleware import WSGIMiddleware

SERVICE_S = 0.15

registry = CollectorRegistry()
MultiProcessCollector(registry)
exposition = make_wsgi_app(registry)


def sleeping(environ, start_response):
    environ["sojourn.route"] = environ["PATH_INFO"]
    time.sleep(SERVICE_S)
    start_response("200 OK", [("Content-Length", "5")])
    return [b"slept"]


measured = WSGIMiddleware(sleeping, prometheus=True)


def application(environ, start_response):
    app = exposition if environ["PATH_INFO"] == "/metrics" else measured
    return app(environ, start_response)
