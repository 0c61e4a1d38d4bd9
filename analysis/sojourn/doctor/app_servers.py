"""App servers: how each treats kept-alive connections of nginx, and the lines that make an app report its times."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

SHARED = "shared"  # any free worker takes the next request of a kept connection
BOUND = "bound"  # a kept connection belongs to one worker, free or not
PER_PROCESS = "process"  # it belongs to one process: no gain is certain, and no harm
CLOSED = "closed"  # the server closes the connection after each answer
UNKNOWN = "unknown"
PREFORKED = 2  # processes on one listening socket: with more than a parent and a worker, each takes connections
_WORDS = 4  # of a command: an interpreter, its options, the program
_GUNICORN_KEEPS = re.compile(
    r"(?:-k|--worker-class)[ =]?\S*(?:gthread|uvicorn|gevent|eventlet|tornado)|--threads[ =]0*(?:[2-9]|1[0-9])"
)


@dataclass(frozen=True)
class AppServer:
    """A server that apps run in.

    Attributes:
        name: its name; empty where it is unknown.
        connections: ``SHARED``, ``BOUND``, ``PER_PROCESS``, ``CLOSED`` or ``UNKNOWN``.
        language: of its apps (``python``, ``asgi``, ``ruby``, ``php``, ``java``, ``node``); empty where it is unknown.
        why: of ``BOUND`` connections: what a worker is bound to.
    """

    name: str = ""
    connections: str = UNKNOWN
    language: str = ""
    why: str = ""


_TO_THREAD = "a thread of Puma serves up to ten requests of one connection before it takes another"
_TO_CHILD = "a child of PHP-FPM serves one connection and no other, until it is closed"
PHP_FPM = AppServer("PHP-FPM", BOUND, "php", _TO_CHILD)
UWSGI = AppServer("uWSGI", CLOSED, "python")
GUNICORN = AppServer("gunicorn", CLOSED, "python")  # its default, sync workers
_APACHE = AppServer("Apache", PER_PROCESS)
_NODE = AppServer("Node", SHARED, "node")
_JAVA = AppServer("Java", SHARED, "java")
# A program of the command that listens -> the server; the first that fits. Those at the end are interpreters.
_BY_PROGRAM = (
    (r"puma:?", AppServer("Puma", BOUND, "ruby", _TO_THREAD)),
    (r"unicorn(?:_rails)?:?", AppServer("Unicorn", CLOSED, "ruby")),
    (r"gunicorn(?:3|:)?", GUNICORN),
    (r"uvicorn", AppServer("Uvicorn", SHARED, "asgi")),
    (r"hypercorn", AppServer("Hypercorn", SHARED, "asgi")),
    (r"daphne", AppServer("Daphne", SHARED, "asgi")),
    (r"waitress-serve|waitress", AppServer("Waitress", SHARED, "python")),
    (r"uwsgi(?:-core)?", UWSGI),
    (r"php-fpm[\d.]*:?", PHP_FPM),
    (r"apache2|httpd", _APACHE),
    (r"nginx:?|haproxy|envoy|caddy|traefik", AppServer("another proxy", SHARED)),
    (r"node|nodejs", _NODE),
    (r"java", _JAVA),
    (r"python[\d.]*", AppServer("", UNKNOWN, "python")),
    (r"ruby[\d.]*", AppServer("", UNKNOWN, "ruby")),
    (r"php[\d.]*", AppServer("", UNKNOWN, "php")),
)
# The beginning of Server or X-Powered-By -> the server.
_BY_HEADER = (
    (r"php/", AppServer("", UNKNOWN, "php")),
    (r"gunicorn", GUNICORN),
    (r"uvicorn", AppServer("Uvicorn", SHARED, "asgi")),
    (r"hypercorn", AppServer("Hypercorn", SHARED, "asgi")),
    (r"daphne", AppServer("Daphne", SHARED, "asgi")),
    (r"waitress", AppServer("Waitress", SHARED, "python")),
    (r"werkzeug|wsgiserver|cherrypy|cheroot|.*\bpython/", AppServer("", UNKNOWN, "python")),
    (r"express|next\.js", _NODE),
    (r"apache-coyote|jetty|wildfly|undertow|jsp/|servlet/|glassfish|payara", _JAVA),
    (r"apache", _APACHE),
    (r"phusion passenger", AppServer("Passenger", SHARED)),
    (r"(?:webrick|thin)\b", AppServer("", UNKNOWN, "ruby")),
    (r"kestrel", AppServer("Kestrel", SHARED)),
    (r"nginx|haproxy|envoy|caddy|openresty", AppServer("another proxy", SHARED)),
)


def server_of_protocol(family: str) -> AppServer:
    """Return the server of a protocol of nginx: ``fastcgi`` or ``uwsgi``; an unknown one for any other."""
    return {"fastcgi": PHP_FPM, "uwsgi": UWSGI}.get(family, AppServer())


def server_of_processes(commands: Sequence[str]) -> AppServer:
    """Return the server to which the processes of one listening socket belong."""
    servers = [_server_of_command(command) for command in commands]
    server = next((each for each in servers if each.name), servers[0] if servers else AppServer())
    if server.connections == SHARED and server.language and len(commands) > PREFORKED:
        return replace(server, connections=PER_PROCESS)
    return server


def _server_of_command(command: str) -> AppServer:
    programs = [os.path.basename(word) for word in command.split()[:_WORDS] if not word.startswith("-")]
    for pattern, server in _BY_PROGRAM:
        if any(re.fullmatch(pattern, program) for program in programs):
            keeps_connections = server is GUNICORN and _GUNICORN_KEEPS.search(command)
            return replace(server, connections=PER_PROCESS) if keeps_connections else server
    return AppServer()


def server_of_headers(headers: Mapping[str, str]) -> AppServer:
    """Return the server that sends these headers (names in small letters)."""
    servers = [_server_of_header(headers.get(name, "")) for name in ("server", "x-powered-by")]
    if "x-runtime" in headers and not any(each.language for each in servers):
        servers.append(AppServer("", UNKNOWN, "ruby"))
    server = next((each for each in servers if each.name), AppServer())
    return replace(server, language=next((each.language for each in reversed(servers) if each.language), ""))


def _server_of_header(value: str) -> AppServer:
    small = value.strip().lower()
    return next((server for pattern, server in _BY_HEADER if small and re.match(pattern, small)), AppServer())


_PYTHON = "pip install ./collector/middleware/python\nfrom sojourn_middleware import {0}\napp = {0}(app)"
_CHECKOUT = "the app's environment, in a checkout of Sojourn; then the app"
# Language -> the lines that make an app send its times, and where they belong.
_ANSWERS = {
    "python": (_PYTHON.format("WSGIMiddleware"), _CHECKOUT),
    "asgi": (_PYTHON.format("ASGIMiddleware"), _CHECKOUT),
    "ruby": (
        'gem "sojourn-middleware", path: "sojourn/collector/middleware/ruby"\nuse Sojourn::Middleware',
        "the Gemfile, with the path of a checkout of Sojourn; then config.ru (Rails needs the first line alone)",
    ),
    "node": (
        "npm install ./collector/middleware/node\n"
        "const { wrap } = require('sojourn-middleware');\n"
        "http.createServer(wrap(handler));",
        "the app's folder, in a checkout of Sojourn; then the app",
    ),
    "php": (
        "php_admin_value[auto_prepend_file] = /usr/share/php/sojourn/auto_prepend.php",
        "the pool of PHP-FPM (pool.d/www.conf), with collector/middleware/php of a checkout of Sojourn copied there",
    ),
    "java": (
        'var sojourn = context.addFilter("sojourn", new SojournFilter());\n'
        "sojourn.setAsyncSupported(true);\n"
        'sojourn.addMappingForUrlPatterns(EnumSet.of(REQUEST, ASYNC, ERROR), false, "/*");',
        "the app, with the package of docs/how-to/java.md",
    ),
    "": (
        "X-Queueing-Delay: 0.012000\nX-Service-Time: 0.100236\nX-Worker: 1234",
        "the headers that the app answers",
    ),
}
ANSWER_PAGE = "docs/how-to/your-own-app.md has the lines for Python, Ruby, Node, Go, PHP and Java."


def answer_lines(language: str = "") -> tuple[str, str]:
    """Return the lines that make an app of a language report its times, and where they belong."""
    return _ANSWERS[language]
