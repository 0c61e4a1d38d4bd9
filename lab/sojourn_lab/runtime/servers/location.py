"""The lines of nginx that hand requests to an app server, by its protocol."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sojourn.doctor.findings import Finding, edited
from sojourn.doctor.nginx import diagnosed_conf

from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.servers.probe import Protocol

# What a distribution's fastcgi_params and uwsgi_params set, as far as the lab's apps read it.
_CGI = {
    "QUERY_STRING": "$query_string",
    "REQUEST_METHOD": "$request_method",
    "CONTENT_TYPE": "$content_type",
    "CONTENT_LENGTH": "$content_length",
    "REQUEST_URI": "$request_uri",
    "SERVER_PROTOCOL": "$server_protocol",
    "SERVER_NAME": "$server_name",
    "SERVER_PORT": "$server_port",
    "REMOTE_ADDR": "$remote_addr",
}


def pass_lines(protocol: Protocol, target: str, *, keepalive: bool = False) -> list[str]:
    """Return the lines of a location without Sojourn: `target` names the upstream.

    With `keepalive` also those without which nginx closes a connection after each request.
    """
    if protocol == "proxy":
        reuse = ["proxy_http_version 1.1;", 'proxy_set_header Connection "";'] if keepalive else []
        return [f"proxy_pass http://{target};", *reuse]
    own = (
        {"SCRIPT_FILENAME": str(resource_file("backend", "app.php"))}
        if protocol == "fastcgi"
        else {"PATH_INFO": "$document_uri"}
    )
    params = [f"{protocol}_param {name} {value};" for name, value in {**_CGI, **own}.items()]
    reuse = ["fastcgi_keep_conn on;"] if keepalive else []
    return [*params, f"{protocol}_pass {target};", *reuse]


def follow_doctor(path: Path, follows: Callable[[Finding], bool]) -> list[str]:
    """Apply the doctor's edits to a configuration, and return the codes of their findings.

    Args:
        path: nginx.conf.
        follows: says which findings are followed; those without an edit never are.
    """
    followed = [each for each in diagnosed_conf(path)[0].ordered().findings if each.edits and follows(each)]
    edits = [edit for each in followed for edit in each.edits]
    texts = {edit.file: Path(edit.file).read_text() for edit in edits}
    for file, text in edited(texts, edits).items():
        Path(file).write_text(text)
    return [each.code for each in followed]
