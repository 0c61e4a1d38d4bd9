"""The attempts of a request in nginx's lists: which one is the backend's, and what those before and after it took.

nginx separates elements by ``,`` where it went on to another upstream after a failed attempt, and by ``:`` where an
internal redirect followed. That is an answer: of the app that names a file (``X-Accel-Redirect``) or a location
(``error_page`` for 3xx), or one that an ``error_page`` replaced. Only a status of 5xx shows a failed attempt there.

The backend is the attempt whose times the components are of: the first answer with 2xx or 3xx that an internal redirect
followed, or else the last attempt. ``$upstream_http_x_…`` are headers of the last one: where these report times, it is
the backend.
"""

from __future__ import annotations

REDIRECT = " : "
ANSWERED, FAILED = "^[23][0-9][0-9]$", "^5[0-9][0-9]$"

ATTEMPT_MACROS = (
    "CREATE OR REPLACE TEMP MACRO separators_of(x) AS (regexp_extract_all(x, ', | : '))",
    "CREATE OR REPLACE TEMP MACRO took_in_all(list) AS "
    "(coalesce(TRY_CAST(list_sum(list_transform(list, lambda e: duration(e))) AS BIGINT), 0))",
    f"CREATE OR REPLACE TEMP MACRO redirects_in(x) AS (coalesce(contains(x, '{REDIRECT}'), false))",
    # Of answers with these statuses that an internal redirect followed, the first; NULL without one.
    "CREATE OR REPLACE TEMP MACRO first_redirected(x, statuses) AS (CASE WHEN length_of(statuses) = length_of(x) "
    "THEN nullif(list_position(list_transform(separators_of(x), lambda e, i: "
    f"e = '{REDIRECT}' AND regexp_matches(parts_of(statuses)[i], '{ANSWERED}')), true), 0) END)",
    # A list of statuses of another length says nothing of the attempts.
    "CREATE OR REPLACE TEMP MACRO replaced_before(x, statuses, backend) AS "
    "(coalesce(TRY_CAST(list_sum(list_transform(parts_of(x)[:backend - 1], lambda e, i: "
    f"CASE WHEN separators_of(x)[i] = '{REDIRECT}' AND NOT (length_of(statuses) = length_of(x) "
    f"AND regexp_matches(parts_of(statuses)[i], '{FAILED}')) THEN duration(e) END)) AS BIGINT), 0))",
)
# Name -> SQL over a record: the list that names its attempts, and the number of the backend's; NULL: the last.
ATTEMPTS_OF_LINE = {
    "addressed": "CASE WHEN r.upstream_addr IS NULL THEN r.upstream_response_time ELSE r.upstream_addr END",
    "backend": "CASE WHEN redirects_in(addressed) AND blank(r.queueing_delay) AND blank(r.service_time) "
    "THEN first_redirected(addressed, r.upstream_status) END",
}


def at_backend(x: str) -> str:
    """Return SQL for the element of the backend's attempt in a list."""
    return f"CASE WHEN is_list({x}) THEN parts_of({x})[coalesce(backend, -1)] ELSE {x} END"


def before_backend(x: str) -> str:
    """Return SQL for the time of the attempts before it, us."""
    return f"CASE WHEN is_list({x}) THEN took_in_all(parts_of({x})[:coalesce(backend - 1, -2)]) ELSE 0 END"


def after_backend(x: str) -> str:
    """Return SQL for the time of the attempts after it, us."""
    return f"CASE WHEN backend IS NOT NULL THEN took_in_all(parts_of({x})[backend + 1:]) ELSE 0 END"


def redirects(x: str) -> str:
    """Return SQL for the time, of that before it, of answers that an internal redirect followed, us."""
    backend = f"coalesce(backend, length_of({x}))"
    return f"CASE WHEN redirects_in({x}) THEN replaced_before({x}, r.upstream_status, {backend}) ELSE 0 END"
