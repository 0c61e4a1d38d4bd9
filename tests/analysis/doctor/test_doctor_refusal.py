"""A refusal of nginx: an error of a wrong text, a warning where this machine lacks a module, a file or a host."""

from __future__ import annotations

from pathlib import Path

import pytest
from doctor_faults import HOST, LISTEN, Fault, root, server
from doctor_support import Laid, laid
from sojourn.doctor.doctor import diagnose
from sojourn.doctor.findings import Finding
from sojourn.doctor.nginx_refusal import judged
from sojourn.nginx.directives import STOCK, module_of_directive, similar_directive
from sojourn_lab.runtime.nginx import Nginx

NO_NGINX = Nginx.why_unavailable()
needs_nginx = pytest.mark.skipif(NO_NGINX is not None, reason=NO_NGINX or "")

# Lines of an HTTP server that this machine's nginx refuses, the severity, and a part of the reason.
ABSENT_HERE = {
    "lua": (server("lua_code_cache on;"), "lua-nginx-module"),
    "lua block": (server("content_by_lua_block { ngx.say('a { b') }"), "lua-nginx-module"),
    "brotli": (server("brotli on;"), "ngx_brotli"),
    "vts": (server("vhost_traffic_status_display;"), "nginx-module-vts"),
    "headers-more": (server('more_set_headers "Server: a";'), "headers-more-nginx-module"),
    "subs_filter, one letter from sub_filter": (server("subs_filter a b;"), "ngx_http_substitutions_filter_module"),
    "a directive of NGINX Plus": (server("status_zone shop;"), "NGINX Plus"),
    "a directive that no list has": (server("wibble_zone on;"), "resembles no directive of nginx"),
    "a variable of brotli": (server("add_header X-Ratio $brotli_ratio;"), "ngx_brotli"),
    "a stock module that was not built": (server("image_filter size;"), "ngx_http_image_filter_module"),
    "a certificate": (
        (LISTEN, f"{LISTEN.replace(';', ' ssl;')} ssl_certificate /nothing.pem; ssl_certificate_key /nothing.key;"),
        "about this machine",
    ),
    "an upstream host": (
        server("location /x { proxy_pass http://nowhere.invalid; include sojourn/sojourn_proxy.conf; }"),
        "about this machine",
    ),
    "an include": (server("include /nothing/there.conf;"), "about this machine"),
}
WRONG_TEXT = {
    "a misspelt directive": (root("proxy_pas http://app;"), "nginx has proxy_pass"),
    "a transposed letter": (server("proxy_set_haeder Host $host;"), "nginx has proxy_set_header"),
    "an invalid value": (server("gzip maybe;"), "the text alone"),
    "too many arguments": (server("root a b;"), "the text alone"),
    "an unknown variable": (server("add_header X-A $brotli_ration;"), "the text alone"),
    "a directive at the wrong level": (server("worker_processes 1;"), "the text alone"),
    "no semicolon": ((HOST, HOST), "the text alone"),
}


def refusal_of(conf: Laid) -> Finding:
    return next(each for each in conf.diagnosed().findings if each.code == "nginx-refuses")


@pytest.mark.parametrize("case", ABSENT_HERE)
@needs_nginx
def test_what_this_machine_lacks_is_a_warning(tmp_path: Path, case: str) -> None:
    edit, reason = ABSENT_HERE[case]
    conf = laid(tmp_path / "a", Fault("", "", (edit,), ""))
    assert conf.accepted() != ""
    diagnosis = conf.diagnosed()
    finding = refusal_of(conf)
    assert finding.severity == "warning"
    assert reason in finding.why
    assert "nginx of the machine that the configuration is for" in finding.why
    assert not diagnosis.broken
    assert any(sentence.startswith("nginx stops at its first error") for sentence in diagnosis.unseen)


@pytest.mark.parametrize("case", WRONG_TEXT)
@needs_nginx
def test_a_wrong_text_is_an_error(tmp_path: Path, case: str) -> None:
    edit, reason = WRONG_TEXT[case]
    conf = laid(tmp_path / "a", Fault("", "", (edit,) if edit[0] != HOST else (), ""))
    if edit[0] == HOST:
        conf.path.write_text(conf.path.read_text().replace("proxy_http_version 1.1;", "proxy_http_version 1.1", 1))
    assert conf.accepted() != ""
    diagnosis = conf.diagnosed()
    finding = refusal_of(conf)
    assert finding.severity == "error"
    assert reason in finding.why
    assert diagnosis.broken


@needs_nginx
def test_a_module_file_that_is_absent_is_a_warning(tmp_path: Path) -> None:
    conf = laid(tmp_path / "a")
    conf.path.write_text("load_module modules/ngx_http_brotli_filter_module.so;\n" + conf.path.read_text())
    finding = refusal_of(conf)
    assert finding.severity == "warning"
    assert "the module ngx_http_brotli_filter_module" in finding.why


@needs_nginx
def test_names_the_line_at_which_nginx_stops(tmp_path: Path) -> None:
    conf = laid(tmp_path / "a", Fault("", "", (server("brotli on;"),), ""))
    line = next(n for n, text in enumerate(conf.path.read_text().splitlines(), 1) if "brotli on;" in text)
    unseen = conf.diagnosed().unseen
    assert f"nginx stops at its first error: it did not check what follows line {line} of {conf.path}." in unseen


@needs_nginx
def test_other_findings_of_a_configuration_with_an_absent_module_remain(tmp_path: Path) -> None:
    """A fault behind the line at which nginx stops comes from the text."""
    edits = (server("brotli on;", "underscores_in_headers on;"),)
    conf = laid(tmp_path / "a", Fault("", "", edits, ""))
    assert {each.code for each in conf.diagnosed().findings} == {"nginx-refuses", "underscores-in-headers"}


@needs_nginx
def test_openresty_on_a_stock_nginx(tmp_path: Path) -> None:
    conf = tmp_path / "nginx.conf"
    conf.write_text(
        "events { worker_connections 4096; }\nhttp {\n  lua_shared_dict limits 10m;\n"
        "  server { listen 8080; location / { return 204; } }\n}\n"
    )
    diagnosis = diagnose(str(conf), somaxconn=4096, ignored=["include-missing"])
    (finding,) = diagnosis.findings
    assert (finding.code, finding.severity) == ("nginx-refuses", "warning")
    assert "lua-nginx-module" in finding.why
    assert not diagnosis.broken


@pytest.mark.parametrize(
    ("message", "severity"),
    [
        ('unknown directive "http2" in /etc/nginx/nginx.conf:3', "warning"),
        ('unknown directive "ssl_certficate" in /etc/nginx/nginx.conf:3', "error"),
        ('the "http2" parameter requires ngx_http_v2_module in /etc/nginx/nginx.conf:3', "warning"),
        ('invalid parameter "quic" in /etc/nginx/nginx.conf:3', "warning"),
        ('invalid parameter "quick" in /etc/nginx/nginx.conf:3', "error"),
        ('module "/m/ngx_http_js_module.so" version 1018000 instead of 1022001 in /etc/nginx/nginx.conf:1', "warning"),
        ('module "/m/ngx_http_js_module.so" is not binary compatible in /etc/nginx/nginx.conf:1', "warning"),
        ('unknown log format "main" in /etc/nginx/nginx.conf:3', "error"),
        ('unknown "sojourn_sent" variable', "error"),
        ('unknown "ssl_protocl" variable', "error"),
        ("without a reason", "error"),
    ],
)
def test_messages_of_other_builds(message: str, severity: str) -> None:
    assert judged(message).severity == severity


def test_no_directive_of_nginx_is_of_another_module() -> None:
    """The lists overlap nowhere but in modules that come with nginx."""
    assert not {name for name in STOCK if not (module_of_directive(name) or "ngx_").startswith("ngx_")}
    assert {name: similar_directive(name) for name in ("sever", "lokation", "listn", "gzp", "rewite")} == {
        "sever": "server",
        "lokation": "location",
        "listn": "listen",
        "gzp": "gzip",
        "rewite": "rewrite",
    }
