"""A Flask app, installed as the README says."""

import time

from flask import Flask, Response
from sojourn_middleware import WSGIMiddleware

app = Flask(__name__)
app.wsgi_app = WSGIMiddleware(app.wsgi_app)


@app.get("/users/<int:number>")
def user(number):
    time.sleep(0.05)
    return f"user {number}"


@app.get("/stream")
def stream():
    def parts():
        time.sleep(0.05)
        yield "a"
        time.sleep(1.0)
        yield "b"

    return Response(parts())


@app.get("/error")
def error():
    raise LookupError("on request")
