"""A Django app in one file, WSGI and ASGI, installed as the README says."""

import time

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse, StreamingHttpResponse
from django.urls import path
from sojourn_middleware import ASGIMiddleware, WSGIMiddleware

settings.configure(
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="only for this test",
    MIDDLEWARE=["django.middleware.common.CommonMiddleware", "sojourn_middleware.django.tell_route"],
)
django.setup()


def user(request, number):
    time.sleep(0.05)
    return HttpResponse(f"user {number}")


def stream(request):
    def parts():
        time.sleep(0.05)
        yield "a"
        time.sleep(1.0)
        yield "b"

    return StreamingHttpResponse(parts())


def error(request):
    raise LookupError("on request")


urlpatterns = [path("users/<int:number>", user), path("stream", stream), path("error", error)]
application = WSGIMiddleware(get_wsgi_application())
asgi = ASGIMiddleware(get_asgi_application())
