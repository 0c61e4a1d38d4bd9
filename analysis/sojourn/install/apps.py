"""The lines that make the apps behind a configuration report their times, for each app server."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sojourn.doctor.app_lookup import listening_processes, words_of
from sojourn.doctor.app_servers import AppServer
from sojourn.doctor.nginx import diagnosed_conf
from sojourn.doctor.nginx_levels import Conf

_CHECKOUT = Path(__file__).resolve().parents[3]
_MIDDLEWARE = "collector/middleware"


@dataclass(frozen=True)
class Framework:
    """A framework.

    Attributes:
        name: its name.
        package: the package whose presence shows that an app uses it; empty for any app of the language.
        where: the file that the lines belong into.
        lines: the lines.
        page: the page in docs/how-to.
    """

    name: str
    package: str
    where: str
    lines: tuple[str, ...]
    page: str


_WSGI = "from sojourn_middleware import WSGIMiddleware"
_ASGI = "from sojourn_middleware import ASGIMiddleware"
_FRAMEWORKS: dict[str, tuple[Framework, ...]] = {
    "python": (
        Framework(
            "Django", "django", "wsgi.py", (_WSGI, "application = WSGIMiddleware(get_wsgi_application())"), "django"
        ),
        Framework(
            "Django, routes",
            "django",
            "settings.py, the last line",
            ('MIDDLEWARE += ["sojourn_middleware.django.tell_route"]',),
            "django",
        ),
        Framework("Flask", "flask", "behind the app", (_WSGI, "app.wsgi_app = WSGIMiddleware(app.wsgi_app)"), "flask"),
        Framework("FastAPI", "fastapi", "behind the app", (_ASGI, "app = ASGIMiddleware(app)"), "fastapi"),
        Framework("Starlette", "starlette", "behind the app", (_ASGI, "app = ASGIMiddleware(app)"), "fastapi"),
        Framework("any WSGI app", "", "behind the app", (_WSGI, "app = WSGIMiddleware(app)"), "your-own-app"),
    ),
    "ruby": (
        Framework("Rails", "rails", "Gemfile", ('gem "sojourn-middleware", path: "{folder}/ruby"',), "rails-rack"),
        Framework("Sinatra", "sinatra", "the class", ("use Sojourn::Middleware",), "rails-rack"),
        Framework(
            "any Rack app",
            "",
            "config.ru, the first lines",
            ('require "sojourn-middleware"', "use Sojourn::Middleware"),
            "rails-rack",
        ),
    ),
    "node": (
        Framework(
            "Express", "express", "behind express()", ("app.use(require('sojourn-middleware').express());",), "node"
        ),
        Framework(
            "Fastify", "fastify", "behind fastify()", ("app.register(require('sojourn-middleware').fastify);",), "node"
        ),
        Framework("Koa", "koa", "behind new Koa()", ("app.use(require('sojourn-middleware').koa());",), "node"),
        Framework(
            "node:http",
            "",
            "around the handler",
            ("http.createServer(require('sojourn-middleware').wrap(handler))",),
            "node",
        ),
    ),
    "php": (
        Framework(
            "PHP-FPM",
            "",
            "the pool, pool.d/www.conf; then reload PHP-FPM",
            ("php_admin_value[auto_prepend_file] = /usr/share/php/sojourn/auto_prepend.php",),
            "php",
        ),
    ),
    "java": (
        Framework(
            "Spring Boot",
            "",
            "pom.xml",
            (
                "<dependency><groupId>sojourn</groupId><artifactId>sojourn-middleware</artifactId>"
                "<version>0.1.0</version></dependency>",
            ),
            "java",
        ),
        Framework("Tomcat and other servlet containers", "", "see the page", (), "java"),
    ),
    "go": (
        Framework(
            "net/http", "", "main.go", ('import sojourn "sojourn/middleware"', "handler = sojourn.New()(handler)"), "go"
        ),
    ),
}
_FRAMEWORKS["asgi"] = (
    *(each for each in _FRAMEWORKS["python"] if each.page == "fastapi"),
    Framework("Django", "django", "asgi.py", (_ASGI, "application = ASGIMiddleware(get_asgi_application())"), "django"),
    Framework("any ASGI app", "", "behind the app", (_ASGI, "app = ASGIMiddleware(app)"), "your-own-app"),
)
_COMMANDS = {
    "python": "{python} -m pip install {folder}/python",
    "asgi": "{python} -m pip install {folder}/python",
    "ruby": "cd {folder}/ruby && gem build sojourn-middleware.gemspec && gem install --local sojourn-middleware-*.gem",
    "node": "npm install {folder}/node",
    "php": "cp -r {folder}/php /usr/share/php/sojourn",
    "java": "mvn -f {folder}/java install -DskipTests",
    "go": "go mod edit -replace sojourn/middleware={folder}/go && go get sojourn/middleware",
}


@dataclass
class AppBehind:
    """An app server behind nginx.

    Attributes:
        address: as nginx logs it.
        server: which server it is.
        places: the locations that pass requests to it.
        processes: number of its processes on this machine.
        folder: its working folder; empty where it is unknown.
        command: what installs the middleware; empty where the language is unknown.
        frameworks: those whose lines apply: the ones that the app has installed, or all of its language.
    """

    address: str
    server: AppServer
    places: list[str] = field(default_factory=list)
    processes: int = 0
    folder: str = ""
    command: str = ""
    frameworks: tuple[Framework, ...] = ()


def apps_behind(path: Path) -> list[AppBehind]:
    """Return the app servers that a configuration passes requests to, each with its lines.

    Raises:
        CaptureError: the configuration cannot be read.
    """
    _, conf = diagnosed_conf(path)
    apps = {each.address: each for each in _by_address(conf)}
    processes = listening_processes(apps)
    for address, app in apps.items():
        of_app = sorted(processes.get(address, []), key=lambda each: int(each.name))
        app.processes = len(of_app)
        words = words_of(of_app[-1]) if of_app else []
        app.folder = _link(of_app[-1] / "cwd") if of_app else ""
        language = app.server.language
        app.command = _COMMANDS.get(language, "").format(python=_python(words), folder=middleware_folder())
        app.frameworks = _frameworks(language, words, app.folder)
    return list(apps.values())


def middleware_folder() -> str:
    """Return the folder of the middleware: of this checkout, or of one that the user makes."""
    folder = _CHECKOUT / _MIDDLEWARE
    return shlex.quote(str(folder)) if folder.is_dir() else f"sojourn/{_MIDDLEWARE}"


def is_checkout() -> bool:
    """Return whether the middleware is in a checkout around this program."""
    return (_CHECKOUT / _MIDDLEWARE).is_dir()


def _by_address(conf: Conf) -> Iterator[AppBehind]:
    apps: dict[str, AppBehind] = {}
    for each in conf.passes:
        for address, server in conf.servers_of(each).items():
            app = apps.setdefault(address, AppBehind(address, server))
            title = ", ".join(
                level.title for level in (each.level, *each.level.above()) if level.directive.name != "http"
            )
            if title not in app.places:
                app.places.append(title)
    yield from apps.values()


def _python(words: list[str]) -> str:
    """Return the Python of a process: that of its virtual environment."""
    first = words[0] if words else ""
    return shlex.quote(first) if re.search(r"(?:^|/)python[\d.]*$", first) and "/" in first else "python"


def _frameworks(language: str, words: list[str], folder: str) -> tuple[Framework, ...]:
    """Return the frameworks that an app has installed; those of its language where that is not visible."""
    every = _FRAMEWORKS.get(language, ())
    packages = _packages(language, words, folder)
    own = tuple(each for each in every if each.package and each.package in packages)
    return own or every


def _packages(language: str, words: list[str], folder: str) -> set[str]:
    if language in ("python", "asgi"):
        prefix = Path(_python(words)).parent.parent
        return {each.name for each in prefix.glob("lib/python3*/site-packages/*")} if prefix.name else set()
    try:
        if language == "node":
            package = json.loads(Path(folder, "package.json").read_text(encoding="utf-8"))
            return set(package.get("dependencies", {}))
        if language == "ruby":
            lock = Path(folder, "Gemfile.lock").read_text(encoding="utf-8")
            return set(re.findall(r"^ {4}([\w-]+) \(", lock, re.M))
    except (OSError, ValueError, AttributeError):
        return set()
    return set()


def _link(path: Path) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
