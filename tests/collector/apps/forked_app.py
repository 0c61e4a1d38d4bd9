"""The bare app after what a uWSGI master can leave to its processes: a request served, numbers taken, and held locks.

No thread is left behind: CPython itself does not survive a fork in C while another thread waits for the interpreter.
"""

import os

import uwsgi
from bare_app import application
from sojourn_middleware import worker


def serve():
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/", "HTTP_X_REQUEST_ID": "master", "wsgi.multithread": True}
    body = application(environ, lambda *args: None)
    getattr(body, "close", int)()


# With --lazy-apps each process imports the app for itself.
if uwsgi.worker_id() == 0:
    serve()
    numbers = worker._numbers[os.getpid()]
    # As of three threads that live in the master.
    left = [numbers._take() for _ in range(3)]
    numbers._lock.acquire()
    application.measurement.telemetry._process(os.getpid()).lock.acquire()
