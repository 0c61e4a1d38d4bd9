"""Scenario files: decoding, refusals with their messages, and the effect of --scale."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab_support import find_scenario
from sojourn_lab.errors import ScenarioError
from sojourn_lab.scenario.experiment_settings import Autoscale
from sojourn_lab.scenario.files import scenario_from_file, scenario_from_text, shipped_scenario_paths
from sojourn_lab.scenario.laws import warmup_of
from sojourn_lab.scenario.load import ClosedLoad, ConstantLoad, DiurnalLoad, InstantsLoad, PoissonLoad, RampLoad
from sojourn_lab.scenario.scaling import scenario_with_time_scaled
from sojourn_lab.scenario.schema import Scenario

HEAD = """
name = "small"
title = "A small one"
question = "Does it decode?"
shows = "It does."
seed = 1
duration = 2.0
"""
CLOSED = """
[[cases]]
name = "one"
service_time = 0.1
[cases.load]
kind = "closed"
concurrency = 2
"""


def loads(text: str) -> Scenario:
    return scenario_from_text(text, "small.toml")


def with_load(load: str, case: str = "") -> Scenario:
    return loads(f'{HEAD}\n[[cases]]\nname = "one"\nservice_time = 0.1\n{case}\n[cases.load]\n{load}')


def test_defaults_are_the_settings_of_the_article() -> None:
    scenario = loads(HEAD + CLOSED)
    topology = scenario.topology
    assert (topology.backends, topology.workers, topology.backlog) == (2, 1, 64)
    assert (topology.worker_timeout, topology.proxy_read_timeout) == (60.0, 60.0)
    assert (topology.server, topology.balancer) == ("gunicorn", "round_robin")
    assert scenario.cases[0].load == ClosedLoad(concurrency=2, think_time=0.0)


@pytest.mark.parametrize(
    ("text", "load"),
    [
        ('kind = "closed"\nconcurrency = 3\nthink_time = 0.5', ClosedLoad(3, 0.5)),
        ('kind = "poisson"\nrate = 8', PoissonLoad(8.0)),
        ('kind = "constant"\nrate = 8.5', ConstantLoad(8.5)),
        ('kind = "ramp"\nfrom_rate = 0\nto_rate = 9', RampLoad(0.0, 9.0)),
        ('kind = "diurnal"\nlow = 1\nhigh = 9\nperiod = 60', DiurnalLoad(1.0, 9.0, 60.0)),
        ('kind = "instants"\nat = [0, 1.5]\nservice_times = [2, 1]', InstantsLoad([0.0, 1.5], [2.0, 1.0])),
    ],
)
def test_every_kind_of_load_decodes(text: str, load: object) -> None:
    assert with_load(text).cases[0].load == load


def test_matrix_is_expanded_in_the_order_of_its_keys() -> None:
    text = HEAD + (
        '[[cases]]\nname = "c{concurrency}-s{service_ms}"\n[cases.matrix]\nservice_time = [0.1, 0.3]\n'
        'concurrency = [1, 8]\n[cases.load]\nkind = "closed"\n'
    )
    names = [(case.name, case.service_time, case.load) for case in loads(text).cases]
    assert names == [
        ("c1-s100", 0.1, ClosedLoad(1)),
        ("c8-s100", 0.1, ClosedLoad(8)),
        ("c1-s300", 0.3, ClosedLoad(1)),
        ("c8-s300", 0.3, ClosedLoad(8)),
    ]


def test_matrix_of_signals_is_of_the_autoscaler_and_not_of_the_load() -> None:
    text = HEAD + (
        '[[cases]]\nname = "{rate}-{signal}"\nservice_time = 0.1\nautoscale = {period = 3}\n'
        'load = {kind = "poisson"}\n[cases.matrix]\nrate = [8]\nsignal = ["cpu", "in_flight"]\n'
    )
    cases = loads(text).cases
    assert [(case.name, case.kind, case.load) for case in cases] == [
        ("8-cpu", "autoscale", PoissonLoad(8.0)),
        ("8-in_flight", "autoscale", PoissonLoad(8.0)),
    ]
    assert [case.autoscale for case in cases] == [
        Autoscale("cpu", period=3.0),
        Autoscale("in_flight", period=3.0),
    ]


MATRIX = '[[cases]]\nname = "{name}"\nservice_time = 0.1\n{matrix}\n[cases.load]\nkind = "closed"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD, "cases: is missing"),
        (HEAD + "cases = []", "cases: must be `array` of length >= 1"),
        (HEAD + "cases = 3", "cases: must be `array`, not 3"),
        (HEAD + 'cases = ["one"]', 'cases[0]: must be `object`, not "one"'),
        (HEAD + "durations = 3.0\n" + CLOSED, "durations: unknown key, did you mean duration?"),
        (
            HEAD + CLOSED + "[topology]\nserver = 'apache'",
            'topology.server: "apache" is not allowed; allowed: gunicorn, unicorn',
        ),
        (
            HEAD + CLOSED + "[topology]\nworker = 2",
            "topology.worker: unknown key, did you mean workers?; allowed: backends, backlog",
        ),
        (HEAD + CLOSED + "[topology]\nworkers = '2'", 'topology.workers: must be `int`, not "2"'),
        (HEAD + CLOSED + "[topology]\nbackends = 0", "topology.backends: must be `int` >= 1, not 0"),
        (HEAD.replace("2.0", "nan") + CLOSED, "duration: must be `float` > 0.0, not nan"),
        (HEAD.replace("2.0", "inf") + CLOSED, "duration: must be `float` <= 86400.0, not inf"),
        (HEAD.replace("2.0", "-1") + CLOSED, "duration: must be `float` > 0.0, not -1"),
        (HEAD.replace("2.0", "1979-05-27") + CLOSED, "duration: must be `float`, not 1979-05-27"),
        (HEAD.replace('"small"', '"../x"') + CLOSED, "name: must be `str` matching regex"),
        (
            HEAD + CLOSED.replace('"closed"', '"open"'),
            'load.kind: "open" is not allowed; allowed: closed, poisson',
        ),
        (HEAD + CLOSED + "users = 2", "cases[0].load.users: unknown key; allowed: concurrency, from_concurrency, kind"),
        (HEAD + CLOSED + CLOSED, "two cases are named 'one'"),
        (HEAD + CLOSED + "[[cases]]\n", "cases[1].name: is missing"),
        (HEAD + MATRIX.format(name="x", matrix="matrix = 3"), "cases[0].matrix: must be a table of lists"),
        (
            HEAD + MATRIX.format(name="x", matrix="matrix = {concurrency = 3}"),
            "cases[0].matrix.concurrency: must be a list",
        ),
        (HEAD + MATRIX.format(name="x", matrix="matrix = {concurrency = []}"), "at least one value"),
        (HEAD + MATRIX.format(name="x", matrix="matrix = {concurrency = [1, 2]}"), "two cases are named 'x'"),
        (HEAD + MATRIX.format(name="x{u}", matrix="matrix = {concurrency = [1]}"), "{u}"),
        (HEAD + MATRIX.format(name="x", matrix="matrix = {user = [1]}"), "cases[0].load.user: unknown key"),
        (HEAD + '[[cases]]\nname = "x"\nservice_time = 1\nmatrix = {rate = [1]}', "cases[0].load: a matrix over rate"),
        (
            HEAD + MATRIX.format(name="x", matrix='matrix = {signal = ["cpu"]}'),
            "cases[0].autoscale: a matrix over signal",
        ),
        (HEAD + CLOSED.replace("[cases.load]", 'autoscale = {signal = "cpu"}\n[cases.load]'), "an open `load`"),
        ("a = 1\na = 2", "Cannot overwrite a value"),
        ("x: 1", "line 1"),
        ("x = !!python/object/apply:os.system ['true']", "line 1"),
        ("", "cases: is missing"),
        ("\x00", "line 1"),
    ],
)
def test_invalid_scenario_is_refused_with_the_path_of_the_key(text: str, words: str) -> None:
    with pytest.raises(ScenarioError) as refusal:
        loads(text)
    assert str(refusal.value).startswith("small.toml: ")
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    ("load", "words"),
    [
        ('kind = "instants"\nat = [2, 1]', "instants of `at`"),
        ('kind = "instants"\nat = []', "length >= 1"),
        ('kind = "instants"\nat = [1, 2]\nservice_times = [1]', "2 instants of at but 1 of service_times"),
        ('kind = "ramp"\nfrom_rate = 0\nto_rate = 0', "above 0"),
        ('kind = "poisson"\nrate = 0', "`float` > 0.0"),
        ('kind = "constant"\nrate = 900000', "1800000 requests, more than 1000000"),
        ('kind = "closed"\nconcurrency = 1.5', "must be `int`"),
    ],
)
def test_a_load_that_cannot_be_offered_is_refused(load: str, words: str) -> None:
    with pytest.raises(ScenarioError, match=words.replace("$", r"\$")):
        with_load(load)


@pytest.mark.parametrize(
    ("criterion", "words"),
    [
        ("", "exactly one of"),
        ("below = 1\nabove = 0", "exactly one of"),
        ("within = 0.1", "`within`"),
        ('below = 1\nof = "law.response_time"', "`within`"),
        ("within = 0\nof = 1", "`float` > 0.0"),
        ("bellow = 1", "unknown key, did you mean below"),
    ],
)
def test_criterion_has_exactly_one_bound(criterion: str, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        loads(HEAD + CLOSED + f'[[criteria]]\nname = "x"\nmetric = "y"\n{criterion}')


@given(st.text())
def test_any_text_is_a_scenario_or_an_error(text: str) -> None:
    with pytest.raises(ScenarioError):
        loads(text)  # nothing hypothesis finds has all the required fields


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "none.toml"
    with pytest.raises(ScenarioError, match=r"none\.toml: cannot be read"):
        scenario_from_file(missing)
    (tmp_path / "latin.toml").write_bytes(b'name = "\xff"')
    with pytest.raises(ScenarioError, match=r"latin\.toml: cannot be read"):
        find_scenario(str(tmp_path / "latin.toml"))
    with pytest.raises(ScenarioError, match="cannot be read"):
        find_scenario(f"{tmp_path}/")


def test_unknown_name_lists_the_known_names() -> None:
    with pytest.raises(ScenarioError, match=r"no scenario 'benchmrk'; there are: .*benchmark"):
        find_scenario("benchmrk")


def test_scale_applies_to_durations_and_keeps_utilisation() -> None:
    text = HEAD + (
        "warmup = 1.0\nfull_duration = 20\ntimeout = 10\n"
        "[topology]\nworker_timeout = 30\nproxy_read_timeout = 40\n"
        '[[cases]]\nname = "a"\nservice_time = 0.1\n'
        'load = {kind = "closed", concurrency = 4, think_time = 0.4}\n'
        '[[cases]]\nname = "b"\nservice_time = 0.1\nload = {kind = "poisson", rate = 8}\n'
        '[[cases]]\nname = "c"\nservice_time = 0.1\nload = {kind = "ramp", from_rate = 0, to_rate = 8}\n'
        '[[cases]]\nname = "d"\nservice_time = 0.1\nload = {kind="instants", at=[1], service_times=[3]}\n'
        '[[criteria]]\nname = "connect"\nmetric = "connect"\nbelow = 0.002\n'
        '[[reference]]\ncases = "a"\nresponse_time = 0.8\n'
    )
    scaled = scenario_with_time_scaled(loads(text), 0.2)
    assert (scaled.duration, scaled.warmup, scaled.full_duration, scaled.timeout) == (0.4, 0.2, 4.0, 2.0)
    assert (scaled.topology.worker_timeout, scaled.topology.proxy_read_timeout) == (6.0, 8.0)
    assert {case.service_time for case in scaled.cases} == {0.02}
    assert [case.load for case in scaled.cases] == [
        ClosedLoad(4, 0.08),
        PoissonLoad(40.0),
        RampLoad(0.0, 40.0),
        InstantsLoad([0.2], [0.6]),
    ]
    assert scaled.criteria[0].below == 0.002
    assert scaled.reference[0].response_time == 0.16


def test_every_shipped_scenario_decodes_opens_with_comments_and_survives_json() -> None:
    paths = shipped_scenario_paths()
    assert "benchmark" in {path.stem for path in paths}
    for path in paths:
        scenario = scenario_from_file(path)
        assert scenario.name == path.stem
        assert scenario.criteria, f"{path.name} says nothing about success"
        opening = path.read_text().split("\nname = ")[0]
        assert all(line.startswith("#") for line in opening.splitlines() if line), path.name
        assert "# What it measures" in opening, path.name
        assert msgspec.json.decode(msgspec.json.encode(scenario), type=Scenario) == scenario


def test_the_benchmark_has_the_article_s_cases_and_figures() -> None:
    scenario = find_scenario("benchmark")
    assert [case.name for case in scenario.cases] == [
        *("c1-s100", "c4-s100", "c8-s100"),
        *("c1-s300", "c4-s300", "c8-s300"),
    ]
    figures = {each.cases: (each.queueing_delay, each.response_time) for each in scenario.reference}
    assert figures == {"c8-s100": (0.74, 0.8), "c8-s300": (1.96, 2.2)}
    assert scenario.full_duration == 900.0


def test_the_warm_up_is_at_least_two_response_times() -> None:
    scenario = find_scenario("benchmark")
    warmups = {case.name: warmup_of(case, scenario.topology, scenario.warmup) for case in scenario.cases}
    assert warmups["c8-s300"] == pytest.approx(2.4)
    assert warmups["c8-s100"] == 2.0


ROUTES = 'routes = [{name = "/a", share = 9, service_time = 0.1}, {name = "/b", share = 1, service_time = 1}]\n'
POISSON = 'load = {kind = "poisson", rate = 8}\n'
PAIR = (
    HEAD
    + f'[[cases]]\nname = "one"\nseed = 3\n{POISSON}{ROUTES}'
    + f'[[cases]]\nname = "two"\nseed = 3\n{POISSON}{ROUTES}topology = {{server = "queue", discipline = "lifo"}}\n'
)
NODE = '{server = "node"}'
PREDICTION = '[[predictions]]\nchange = "c"\nbefore = "one"\nafter = "two"\nset = {discipline = "lifo"}\n'


def test_a_case_may_have_routes_and_a_topology_of_its_own() -> None:
    scenario = loads(PAIR + PREDICTION)
    one, two = scenario.cases
    assert one.mean_service_time == pytest.approx(0.19)
    assert scenario.topology_of(one) == scenario.topology
    changed = scenario.topology_of(two)
    assert (changed.server, changed.discipline, changed.workers) == ("queue", "lifo", scenario.topology.workers)
    assert scenario.predictions[0].set == {"discipline": "lifo"}
    scaled = scenario_with_time_scaled(scenario, 0.1)
    assert [route.service_time for route in scaled.cases[0].routes] == [0.01, 0.1]
    assert [route.share for route in scaled.cases[0].routes] == [9.0, 1.0]
    assert scaled.topology_of(scaled.cases[1]).discipline == "lifo"


def test_a_service_time_may_be_processor_time() -> None:
    slow = "share = 1, service_time = 1"
    scenario = loads(PAIR.replace(slow, f"{slow}, cpu = true, after = 2"))
    assert [route.cpu for route in scenario.cases[0].routes] == [False, True]
    case = scenario_with_time_scaled(scenario, 0.1).cases[0]
    assert case.uses_processor
    assert case.mean_service_time == pytest.approx(0.019)
    # 9 of 10 requests sleep for 10 ms; the other one holds its worker for 200 ms after the answer.
    assert case.mean_idle == pytest.approx(0.9 * 0.01 + 0.1 * 0.2)


def test_rules_of_disciplines_are_scaled_where_they_are_set() -> None:
    rules_toml = (
        '[topology]\nserver = "queue"\ndiscipline = "codel"\n[topology.rules]\ncodel_target = 0.02\ncapacity = 7\n'
    )
    rules = scenario_with_time_scaled(loads(HEAD + CLOSED + rules_toml), 0.5).topology.rules
    assert (rules.codel_target, rules.codel_interval, rules.capacity) == (0.01, 0.05, 7)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD + CLOSED + '[topology]\ndiscipline = "lifo"', 'a discipline and rules need server = "queue"'),
        (
            HEAD + CLOSED + '[topology]\nserver = "queue"\ndiscipline = "sjf"',
            'discipline: "sjf" is not allowed',
        ),
        (PAIR.replace('server = "queue", ', ""), 'need server = "queue"'),
        (HEAD + CLOSED + '[topology]\nserver = "puma"\nmasters = 2', 'need server = "gunicorn"'),
        (HEAD + CLOSED + '[topology]\nserver = "unicorn"\nmax_requests = 9', 'need server = "gunicorn"'),
        (HEAD + CLOSED + '[topology]\nserver = "puma"\nloading = 1', "needs the Python app"),
        (HEAD + CLOSED + '[topology]\nserver = "java"\nworker_log = true', "writes no `worker_log`"),
        (HEAD + CLOSED + "[topology]\nunix = true\nlimit = 2", "apply to TCP"),
        (HEAD + CLOSED + '[topology]\nserver = "php-fpm"\nlimit = 2', "does not speak the protocol of php-fpm"),
        (HEAD + CLOSED + '[topology]\nserver = "uvicorn"\nworkers = 2', "one event loop"),
        (
            PAIR.replace("share = 9", "after = 1, share = 9").replace('{server = "queue", discipline = "lifo"}', NODE),
            "case 'two' has routes with a `body` or `after`",
        ),
        (
            PAIR.replace("share = 9", "cpu = true, share = 9").replace('{server = "queue", discipline = "lifo"}', NODE),
            "case 'two' has routes with `cpu`, which the app of server node cannot use: use gunicorn or queue or uwsgi",
        ),
        (PAIR.replace('"/a"', '"a b"'), "cases[0].routes[0].name and cases[1].routes[0].name: must be `str`"),
        (HEAD + CLOSED.replace("service_time = 0.1", ""), "either `service_time` or `routes`"),
        (HEAD + CLOSED.replace("[cases.load]", ROUTES + "[cases.load]"), "either `service_time` or `routes`"),
        (
            HEAD + f'[[cases]]\nname = "a"\n{ROUTES}load = {{kind = "instants", at = [1], service_times = [1]}}',
            "`service_times`",
        ),
        (PAIR + PREDICTION.replace('"two"', '"three"'), "a case 'three'"),
        (PAIR.replace("seed = 3", "seed = 4", 1) + PREDICTION, "the same `seed`"),
        (PAIR.replace("seed = 3\n", "") + PREDICTION, "the same `seed`"),
        (PAIR.replace("rate = 8", "rate = 9", 1) + PREDICTION, "must have the same load"),
        (
            PAIR + PREDICTION.replace('{discipline = "lifo"}', "{}"),
            "predictions[0].set: must be `object`",
        ),
    ],
)
def test_invalid_prediction_or_case_is_refused(text: str, words: str) -> None:
    with pytest.raises(ScenarioError) as refusal:
        loads(text)
    assert words in str(refusal.value)
