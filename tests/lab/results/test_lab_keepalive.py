"""Connections that nginx keeps open to the app server: servers that are faster with them, and slower."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from lab_support import find_scenario, missed, sound_run
from sojourn_lab.results.contrasts import contrast_results
from sojourn_lab.results.criteria import judged_criteria
from sojourn_lab.results.run_schema import CaseResult, WindowTimes
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.servers.table import why_server_unavailable
from sojourn_lab.scenario.load import ClosedLoad
from sojourn_lab.scenario.run_options import without_long_cases
from sojourn_lab.scenario.schema import Contrast, Criterion

pytestmark = pytest.mark.alone

SUFFIX = "-kept"


def test_the_cases_of_a_server_differ_in_its_connections_alone() -> None:
    scenario = find_scenario("keepalive")
    cases = {case.name: case for case in scenario.cases}
    plain = [name for name in cases if not name.endswith(SUFFIX)]
    assert len(plain) * 2 == len(cases)
    for name in plain:
        before, after = (scenario.topology_of(cases[each]) for each in (name, name + SUFFIX))
        assert (before.keepalive, after.keepalive) == (None, 32)
        assert msgspec.structs.replace(after, keepalive=None) == before
        assert cases[name].same_draws(cases[name + SUFFIX])
    assert {scenario.topology_of(cases[name]).server for name in plain} >= {"puma", "gunicorn", "php-fpm", "go"}


def test_the_short_form_has_no_contrast_of_a_case_that_it_leaves_out() -> None:
    short = without_long_cases(find_scenario("keepalive"))
    names = {case.name for case in short.cases}
    assert not any("2x2" in name for name in names)
    assert all({each.a, each.b} <= names for each in short.contrasts)
    assert any("gthread" in each.name for each in short.contrasts)


def test_the_short_form_has_no_criterion_about_contrasts_that_it_leaves_out() -> None:
    scenario = find_scenario("keepalive")
    more = [Criterion(name, "ratio", contrasts=name, above=0.0) for name in ("*2x2", "p99*", "none of these")]
    short = without_long_cases(msgspec.structs.replace(scenario, criteria=more))
    assert [each.name for each in short.criteria] == ["p99*", "none of these"]


def test_a_contrast_with_a_skipped_case_is_not_judged() -> None:
    window = WindowTimes("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z")

    def case(name: str, figures: dict[str, object]) -> CaseResult:
        return CaseResult(name, 0.01, ClosedLoad(1), 0.0, 1.0, window, None, [], split=None, base=name, figures=figures)

    cases = [case("puma", {"skipped": "puma is not installed"}), case("go", {"rate": 2.0}), case("node", {"rate": 1.0})]
    contrasts = contrast_results(
        [Contrast("lost", "figures.rate", "puma", "go"), Contrast("known", "figures.rate", "go", "node")], cases
    )
    criteria = [
        Criterion("any", "ratio", contrasts="*", above=1.5),
        Criterion("one", "ratio", contrasts="lost", above=1),
    ]
    assert [each.skipped for each in contrasts] == ["puma is not installed", ""]
    assert [(each.name, each.case, each.passed) for each in judged_criteria(criteria, cases, (), contrasts)] == [
        ("any", "known", True)
    ]


@pytest.mark.scenario
@pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")
def test_puma_and_php_fpm_are_harmed_and_others_are_not(tmp_path: Path) -> None:
    for server in ("puma", "php-fpm", "go"):
        if (reason := why_server_unavailable(server)) is not None:
            pytest.skip(reason)
    assert missed(sound_run(tmp_path, "keepalive", "--quick")) == []
