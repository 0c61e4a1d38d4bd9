"""The bare app after one request of its own at import, as an app that warms itself up before the fork."""

from bare_app import application

body = application({"REQUEST_METHOD": "GET", "PATH_INFO": "/", "HTTP_X_REQUEST_ID": "warm-up"}, lambda *args: None)
getattr(body, "close", int)()
