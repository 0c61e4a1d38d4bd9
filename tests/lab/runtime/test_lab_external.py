"""A scenario's load at a given URL: refusals, requests, limits, and the report."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lab_support import StubServer, generated, http_server, plan_for
from sojourn_lab.cli import app
from sojourn_lab.errors import ScenarioError
from sojourn_lab.load.generator.loops import Pace, drawn_requests
from sojourn_lab.load.plan import Target
from sojourn_lab.runtime.external import external_scenario, peak_rate
from sojourn_lab.runtime.target import Limits, Targets, target_url, targets_from_options
from sojourn_lab.scenario.files import scenario_from_text
from sojourn_lab.scenario.load import ClosedLoad, ConstantLoad, InstantsLoad, PoissonLoad, RampLoad, StepsLoad
from sojourn_lab.scenario.schema import Scenario
from typer.testing import CliRunner

LIMITS = Limits()
TEXT = """
name = "outside"
title = "Seen from outside"
question = "?"
shows = "."
seed = 3
duration = 1.0
{more}
[[cases]]
name = "users"
service_time = 0.05
load = {{kind = "closed", concurrency = 2}}
[[cases]]
name = "steady"
service_time = 0.05
load = {{kind = "constant", rate = 4}}
{case}
[[criteria]]
name = "no failure"
metric = "client.failed"
equals = 0.0
[[criteria]]
name = "identity"
metric = "split.audit.identity_max_error"
below = 1e-6
[[criteria]]
name = "as the law has it"
metric = "client.latency.corrected.mean"
within = 0.1
of = "law.response_time"
"""


def scenario(more: str = "", case: str = "") -> Scenario:
    return scenario_from_text(TEXT.format(more=more, case=case), "TEXT")


def run(folder: Path, *arguments: str, more: str = "", case: str = "") -> tuple[int, dict[str, Any], str]:
    """Return the exit code, the record and what went to stderr."""
    path = folder / "outside.toml"
    path.write_text(TEXT.format(more=more, case=case))
    done = CliRunner().invoke(app, ["run", str(path), "--out", str(folder / "run"), "--json", "--quiet", *arguments])
    return done.exit_code, json.loads(done.stdout) if done.stdout else {}, done.stderr


def targets(*urls: str, limits: Limits = LIMITS, lab_app: bool = False) -> Targets:
    return Targets(tuple(map(target_url, urls)), limits, lab_app)


def test_requests_the_exact_url() -> None:
    result = target_url("https://example.org:8443/a%20b?c=d%2Fe&f")
    assert (result.base, result.path) == ("https://example.org:8443", "/a%20b?c=d%2Fe&f")
    assert result.without_query == "https://example.org:8443/a%20b", "a query may hold a key"
    assert target_url("http://[::1]:80").base == "http://[::1]:80"
    assert target_url("http://example.org").path == "/"
    behind = targets("http://example.org/lab/", lab_app=True)
    assert (behind.base, behind.of_plan()) == ("http://example.org/lab", [])


def test_several_urls_have_weights_and_names_without_queries() -> None:
    several = targets("3=https://example.org/a?x=1=2", "https://example.org/a?key=secret", "0.5=http://example.com/b")
    assert [each.weight for each in several.urls] == [3.0, 1.0, 0.5]
    assert several.of_plan() == [
        Target("https://example.org/a?x=1=2", "https://example.org/a", 3.0),
        Target("https://example.org/a?key=secret", "https://example.org/a #2", 1.0),
        Target("http://example.com/b", "http://example.com/b", 0.5),
    ]
    assert [each.name for each in targets("http://a/b", "http://a/c?d").of_plan()] == ["/b", "/c"]
    assert several.names == ["3=https://example.org/a", "1=https://example.org/a", "0.5=http://example.com/b"]
    assert targets("http://a/b?c", "http://a/d").names == ["http://a/b", "http://a/d"]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://example.org/", "not a URL of the form"),
        ("example.org", "not a URL of the form"),
        ("http://", "not a URL of the form"),
        ("0=http://example.org/", "the weight must be above 0"),
        ("x=http://example.org/", "or WEIGHT=URL"),
        ("http://example.org:99999/", "Port out of range"),
        ("http://me:secret@example.org/", "a name and a password"),
        ("http://example.org/a b", "only printable ASCII"),
        ("http://example.org/\r\nX: y", "only printable ASCII"),
    ],
)
def test_rejects_invalid_url(url: str, words: str) -> None:
    with pytest.raises(ScenarioError, match=words) as refused:
        target_url(url)
    assert "secret" not in str(refused.value)


def test_limits_go_with_a_url_and_servers_do_not() -> None:
    assert targets_from_options([], limits={"rate": None}, lab_app=False, starts=True) is None
    with pytest.raises(ScenarioError, match="need --url"):
        targets_from_options([], limits={"rate": 3.0}, lab_app=False, starts=False)
    with pytest.raises(ScenarioError, match="it starts nothing"):
        targets_from_options(["http://a"], limits={}, lab_app=False, starts=True)
    with pytest.raises(ScenarioError, match="one --url"):
        targets_from_options(["http://a", "http://b"], limits={}, lab_app=True, starts=False)
    result = targets_from_options(["http://a"], limits={"rate": 9.0, "concurrency": None}, lab_app=False, starts=False)
    assert result is not None
    assert result.limits == Limits(rate=9.0)


def test_the_peak_of_a_load_is_what_its_schedule_says() -> None:
    assert peak_rate(ConstantLoad(4.0)) == 4.0
    assert peak_rate(RampLoad(1.0, 9.0)) == 9.0
    assert peak_rate(StepsLoad([1.0, 7.0, 2.0], [1.0, 2.0])) == 7.0
    assert peak_rate(InstantsLoad([0.0, 5.0, 5.2, 5.9, 6.1])) == 3.0
    with pytest.raises(ValueError, match="no rate of its own"):
        peak_rate(ClosedLoad(1))


@pytest.mark.parametrize(
    ("limits", "more", "words"),
    [
        (Limits(rate=3.0), "", "--max-rate 4 allows it"),
        (Limits(concurrency=1), "", "--max-concurrency 2 allows it"),
        (Limits(duration=1.9), "", "--max-duration 2 allows it"),
        (Limits(), "repeats = 31", "--max-duration 62 allows it"),
        (Limits(), "warmup = 30.0", "--max-duration 62 allows it"),
        (Limits(), "retries = {attempts = 2}", "--max-rate 8 allows it"),
    ],
)
def test_a_scenario_beyond_a_limit_is_refused_with_the_option_that_raises_it(
    limits: Limits, more: str, words: str
) -> None:
    with pytest.raises(ScenarioError, match=words):
        external_scenario(scenario(more), targets("http://localhost/", limits=limits))


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("topology = {workers = 3}", "needs servers of another topology"),
        ('actions = [{at = 0.5, do = "add_backend"}]', "acts on the servers"),
        ("dependency = 0.1", "a tier behind the app"),
        ('generator = "siege"', "does not support the limits"),
    ],
)
def test_rejects_cases_that_need_the_lab_s_servers(case: str, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        external_scenario(scenario(case=case), targets("http://localhost/"))


def test_names_figures_that_clients_cannot_measure() -> None:
    result = external_scenario(scenario('analyses = ["routes"]'), targets("http://localhost/{x}"))
    assert [each.name for each in result.criteria] == ["no failure", "the URL answered"]
    assert "criterion: identity; criterion: as the law has it; analysis: routes." in result.learned
    assert "http://localhost/(x)" in result.learned, "braces are places for figures"
    assert result.analyses == []
    assert {case.service_time for case in result.cases} == {0.0}


def test_turns_are_never_nearer_than_the_rate_allows() -> None:
    pace = Pace(10.0)
    arguments = [pace.turn(due) for due in (1.0, 1.0, 1.05, 5.0, 5.01)]
    assert arguments == pytest.approx([1.0, 1.1, 1.2, 5.0, 5.1])
    assert [Pace(None).turn(due) for due in (1.0, 1.0)] == [1.0, 1.0]


@pytest.mark.alone
def test_users_of_a_closed_loop_share_the_rate(tmp_path: Path) -> None:
    with http_server(StubServer()) as server:
        target = [Target(f"{server.url}/x?y=%20", "/x")]
        plan = plan_for(tmp_path, server.url, ClosedLoad(3), 1.0, targets=target, most_a_second=10.0)
        summary, records = generated(plan)
    assert 5 <= summary.offered <= 11, "without the limit: hundreds"
    assert {path for path, _, _ in server.requests} == {"/x?y=%20"}
    intended = sorted(each.intended for each in records)
    assert min(later - earlier for earlier, later in zip(intended, intended[1:], strict=False)) > 0.099  # noqa: RUF007


def test_a_run_against_a_url_asks_it_and_starts_nothing(tmp_path: Path) -> None:
    with http_server(StubServer()) as server:
        code, record, _ = run(tmp_path, "--url", f"{server.url}/a?key=secret")
    assert {path for path, _, _ in server.requests} == {"/a?key=secret"}
    assert len(server.requests) == record["rows"]["client"] <= 12
    # A busy machine can make any run void, and then it says so.
    assert (code, record["passed"]) == ((1, False) if record["void"] else (0, True))
    assert all(each["passed"] for each in record["criteria"])
    assert record["runtime"] == "external"
    assert record["changes"]["url"] == f"{server.url}/a"
    assert record["changes"]["limits"] == {"rate": 5.0, "concurrency": 4, "duration": 60.0}
    assert record["versions"]["nginx"] == "took no part"
    assert record["faults"] == []
    for case in record["cases"]:
        assert (case["split"], case["law"], case["topology"]) == (None, None, None)
        assert case["client"]["answered"] > 0
    files = {path.name for path in (tmp_path / "run").iterdir()}
    assert not files & {"nginx", "access.jsonl", "requests.parquet"}
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Measured at the clients alone" in page
    assert "criterion: identity" in page
    assert "secret" not in page
    assert "secret" not in (tmp_path / "run" / "run.json").read_text()


def test_the_labs_app_behind_a_url_gets_its_service_times(tmp_path: Path) -> None:
    with http_server(StubServer()) as server:
        code, record, _ = run(tmp_path, "--url", server.url, "--lab-app", "--scale", "0.5", "--max-rate", "8")
    assert {path for path, _, _ in server.requests} == {"/sleep/0.025000"}
    assert (code, record["cases"][0]["service_time"]) == (1 if record["void"] else 0, 0.025)


def test_failures_and_silence_are_failures(tmp_path: Path) -> None:
    with http_server(StubServer(status=503)) as server:
        code, record, _ = run(tmp_path, "--url", server.url)
    assert code == 1
    assert record["cases"][0]["client"]["statuses"] == {"503": record["cases"][0]["client"]["answered"]}
    (tmp_path / "again").mkdir()
    gone, silent, _ = run(tmp_path / "again", "--url", server.url)
    assert gone == 1
    failed = {each["name"] for each in silent["criteria"] if not each["passed"]}
    assert failed == {"no failure", "the URL answered"}


def test_a_refusal_comes_before_the_first_request(tmp_path: Path) -> None:
    with http_server(StubServer()) as server:
        code, _, words = run(tmp_path, "--url", server.url, "--max-concurrency", "1")
    assert (code, server.requests) == (2, [])
    assert "--max-concurrency 2 allows it" in words
    assert not list(tmp_path.glob("run*"))
    assert run(tmp_path, "--max-rate", "1")[0] == 2


def test_several_urls_get_their_shares_and_have_figures_of_their_own(tmp_path: Path) -> None:
    slow = StubServer(before_answer=lambda _: time.sleep(0.05))
    with http_server(StubServer()) as fast, http_server(slow):
        urls = ("--url", f"3={fast.url}/a?key=secret", "--url", f"{slow.url}/b")
        code, record, _ = run(tmp_path, *urls, "--max-rate", "40", more="", case="")
    assert code in (0, 1)
    assert {path for path, _, _ in fast.requests} == {"/a?key=secret"}
    assert {path for path, _, _ in slow.requests} == {"/b"}
    assert record["changes"]["url"] == [f"3={fast.url}/a", f"1={slow.url}/b"]
    for case in record["cases"]:
        by_target = case["figures"]["targets"]
        assert set(by_target) <= {f"{fast.url}/a", f"{slow.url}/b"}
        assert sum(each["requests"] for each in by_target.values()) == case["client"]["offered"]
    assert "secret" not in (tmp_path / "run" / "run.json").read_text()


def test_shares_of_targets_are_drawn_by_their_weights(tmp_path: Path) -> None:
    plan = plan_for(
        tmp_path, "", PoissonLoad(400), 5.0, targets=[Target("http://a/", "a", 3.0), Target("http://b/", "b", 1.0)]
    )
    rng = np.random.default_rng(1)
    requests = drawn_requests(plan, np.zeros(2_000), rng)
    assert sum(each.url == "http://a/" for each in requests) / 2_000 == pytest.approx(0.75, abs=0.04)
    assert {each.route for each in requests} == {"a", "b"}
    assert [each.number for each in requests] == list(range(2_000))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--log", "none.jsonl"], "--log none.jsonl: cannot be read"),
        (["--cacert", "none.pem"], "--cacert needs an https --url"),
        (["--url", "https://localhost/", "--cacert", "none.pem"], "--cacert none.pem: cannot be read"),
        (["--url", "https://localhost/", "--cacert", "empty.pem"], "holds no certificate in PEM form"),
    ],
)
def test_files_that_cannot_be_used_are_refused_before_the_first_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.pem").write_text("")
    with http_server(StubServer()) as server:
        code, _, stderr = run(tmp_path, "--url", server.url, *arguments)
    assert (code, server.requests) == (2, [])
    assert words in stderr
    assert run(tmp_path, *arguments[-2:])[0] == 2


def test_paths_of_the_user_s_own_app_give_way_to_the_urls(tmp_path: Path) -> None:
    text = TEXT.format(more='[topology]\ncommand = "run {port}"', case="").replace(
        "service_time = 0.05", 'paths = {"/mine" = 1}'
    )
    with http_server(StubServer()) as server:
        (tmp_path / "own.toml").write_text(text)
        arguments = ["run", str(tmp_path / "own.toml"), "--url", f"{server.url}/other", "--out", str(tmp_path / "run")]
        done = CliRunner().invoke(app, [*arguments, "--json", "--quiet"])
    assert {path for path, _, _ in server.requests} == {"/other"}
    assert json.loads(done.stdout)["scenario"]["topology"]["server"] == "gunicorn"
    refused = CliRunner().invoke(app, [*arguments, "--lab-app"])
    assert refused.exit_code == 2
    assert "leave out --lab-app" in refused.stderr
