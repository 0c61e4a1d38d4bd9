"""Check the metric paths of a scenario before it runs: a path that no run can have is an error, with what there is.

A path goes into the result of a case (`CaseResult`, whose fields are read here), a prediction or a contrast. The split
is the JSON of `sojourn split`, and figures are those of `figure_paths`.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
from sojourn.model.components import COMPONENTS
from sojourn.model.formatting import listed

from sojourn_lab.results.figure_paths import OF_ANALYSES, OF_KINDS
from sojourn_lab.results.run_schema import CaseResult, ContrastResult, PredictionResult
from sojourn_lab.scenario.problems import Problem

MOST_NAMES = 16
"""The most names that an error lists."""
FIGURES = "{mean,p50,p90,p99,p999,max}"
EACH = f"{{queueing_delay,{','.join(COMPONENTS)}}}"
SPLIT = (
    "{requests,queueing_share,wasted_seconds}",
    "window.seconds",
    "records.{read,accepted,rejected}",
    "records.{reasons,dropped}.*",
    "records.set_apart.requests",
    "others.*.{values,requests}",
    f"response_time.{FIGURES}",
    f"components.{EACH}.{FIGURES}",
    f"means.{EACH}",
    "tail.p99.{threshold,requests,queueing_share}",
    f"tail.p99.components.{EACH}",
    "by.*.*.{requests,queueing_share}",
    f"by.*.*.{{response_time,queueing_delay,service_time}}.{FIGURES}",
    "audit.{identity_max_error,negative_queue,stationary,app_known,impossible,app_headers_garbled,upgraded,duplicates}",
    "audit.{stamp_less_duration,less_busy_backends}",
    "audit.little.{arrival_rate,mean_in_system,mean_response,ratio}",
    "audit.stationarity.significance",
    "audit.utilisation.*.{workers,busy,utilisation,in_one_worker}",
    "audit.known.{not_proxied,answered,by_stamp,by_duration,inferred,silent,timed_out,left,failed,impossible}",
    "verdict.culprit.{share,requests,held,of_held}",
    "incident.{requests,seconds,queueing_share}",
    f"incident.{{response_time,queueing_delay,service_time}}.{FIGURES}",
    "incident.{usual_wait,share_of_waiting,arrivals,services}",
    "audit.known.{late_stamps,of_app}",
    "audit.resolution.{time,request_start,app_start}",
    "audit.checks.*.{value,threshold}",
    *(
        f"{name}.*"
        for name in ("queue_source", "audit.negative", "clock", "held", "inner_queue", "evidence", "verdict")
    ),
)
"""Paths of the JSON of `sojourn split`; of the last ones, the split decides the names."""

BRACES = re.compile(r"\{([^{}]*)\}")
Tree = dict[str, "Tree"]
"""Step of a path -> the steps after it; a step without any is the end of a path, and `*` is any one or more steps."""


def metric_problems(raw: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield every metric path of a decoded scenario that no run can have.

    Values of a wrong type are left out: the check of the types reports them.
    """
    cases = _case_tree(raw)
    for number, criterion in enumerate(_tables(raw, "criteria")):
        tree = cases
        if isinstance(criterion.get("predictions"), str):
            tree = _tree_of(PredictionResult)
        elif isinstance(criterion.get("contrasts"), str):
            tree = _tree_of(ContrastResult)
        for key in ("metric", "below", "above", "equals", "of"):
            yield from _problem(criterion.get(key), f"criteria[{number}].{key}", tree, cases, raw)
    for name in ("columns", "contrasts"):
        for number, table in enumerate(_tables(raw, name)):
            yield from _problem(table.get("metric"), f"{name}[{number}].metric", cases, cases, raw)


def _problem(value: Any, where: str, tree: Tree, cases: Tree, raw: Mapping[str, Any]) -> Iterator[Problem]:
    if not isinstance(value, str):
        return
    case, colon, path = value.rpartition(":")
    if colon:
        names = [each["name"] for each in _tables(raw, "cases") if isinstance(each.get("name"), str)]
        if case not in names:
            near = get_close_matches(case, names, 1)
            meant = f", did you mean {near[0]}?" if near else f"; there are {_names(names)}"
            yield Problem(where, f'there is no case "{case}"{meant}')
        tree = cases
    reason = _why_impossible(path, tree)
    analysis = path.split(".")[1] if path.startswith("figures.") else ""
    if reason is not None and analysis in OF_ANALYSES and analysis not in _analyses(raw):
        reason = f'"{path}" needs "{analysis}" in `analyses`'
    if reason is not None:
        yield Problem(where, reason)


def _why_impossible(path: str, tree: Tree) -> str | None:
    """Return why no run has a number at a path, with the names that there are; None if a run may have one."""
    steps = path.split(".")
    reached, nodes = 0, [tree]
    for count, next_nodes in _walk(steps, tree):
        if count == len(steps) and any(not node for node in next_nodes):
            return None
        if count >= reached:
            reached, nodes = count, next_nodes
    names = sorted({name for node in nodes for name in node if name != "*"})
    before = ".".join(steps[:reached])
    if reached == len(steps):
        return f'"{path}" is not a number: it has {_names(names)}'
    if not names:
        return f'"{before}" is a number: there is nothing below it' if before else f'there is no figure "{path}"'
    near = get_close_matches(steps[reached], names, 1)
    meant = f", did you mean {'.'.join([*steps[:reached], near[0]])}?" if near else ""
    place = f'"{before}" has' if before else "a result has"
    inside = f' in "{path}"' if len(steps) > 1 else ""
    return f'there is no "{steps[reached]}"{inside}{meant}; {place} {_names(names)}'


def _walk(steps: list[str], tree: Tree) -> Iterator[tuple[int, list[Tree]]]:
    """Yield how many steps of a path can be gone, and the nodes that are reached."""
    level: dict[int, list[Tree]] = {0: [tree]}
    for count in range(len(steps) + 1):
        nodes = level.get(count, [])
        if nodes:
            yield count, nodes
        if count == len(steps):
            return
        for node in nodes:
            if steps[count] in node:
                level.setdefault(count + 1, []).append(node[steps[count]])
            if "*" in node:
                # A route or an address has dots of its own: it may be several steps.
                for end in range(count + 1, len(steps) + 1):
                    level.setdefault(end, []).append(node["*"])


def _case_tree(raw: Mapping[str, Any]) -> Tree:
    """Return the paths of the results of a scenario's cases."""
    cases = _tables(raw, "cases")
    kinds = {next((kind for kind in OF_KINDS if case.get(kind) is not None), "http") for case in cases}
    figures = ["skipped", *(path for kind in kinds for path in OF_KINDS[kind])]
    figures += [f"{name}.{path}" for name in _analyses(raw) for path in OF_ANALYSES.get(name, ())]
    tree = dict(_tree_of(CaseResult))
    tree["split"] = _tree(SPLIT)
    tree["figures"] = _tree(figures)
    return tree


def _analyses(raw: Mapping[str, Any]) -> list[str]:
    """Return the analyses of a scenario; a capture has the packets'."""
    analyses = [each for each in raw["analyses"] if isinstance(each, str)] if _is_list(raw, "analyses") else []
    return [*analyses, "wire"] if raw.get("capture") is True else analyses


def _tree(paths: Iterable[str]) -> Tree:
    """Return the tree of paths with braces."""
    tree: Tree = {}
    for path in itertools.chain.from_iterable(map(_expanded, paths)):
        node = tree
        for step in path.split("."):
            node = node.setdefault(step, {})
    return tree


def _expanded(path: str) -> list[str]:
    """Return a path with each `{a,b}` replaced by one of its names."""
    match = BRACES.search(path)
    if match is None:
        return [path]
    return [
        each for name in match[1].split(",") for each in _expanded(path[: match.start()] + name + path[match.end() :])
    ]


@functools.cache
def _tree_of(kind: type[Any]) -> Tree:
    """Return the paths to the numbers of a struct, by the types of its fields."""
    hints = get_type_hints(kind, include_extras=True)
    names = {field.name: field.encode_name for field in msgspec.structs.fields(kind)}
    return {names[name]: tree for name in names if (tree := _tree_of_type(hints[name])) is not None}


def _tree_of_type(kind: Any) -> Tree | None:
    """Return the paths below a value of a type; empty for a number; None for what holds none."""
    if get_origin(kind) is Annotated:
        return _tree_of_type(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        trees = [_tree_of_type(each) for each in get_args(kind) if each is not type(None)]
        present = [tree for tree in trees if tree is not None]
        return {name: tree for each in present for name, tree in each.items()} if present else None
    if kind in (int, float, bool):
        return {}
    if get_origin(kind) in (list, dict):
        inner = _tree_of_type(get_args(kind)[-1])
        return None if inner is None else {"*": inner}
    return (_tree_of(kind) or None) if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else None


def _tables(raw: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """Return the list of tables of a key; what is of another type is left out, and keeps no number."""
    return [each if isinstance(each, dict) else {} for each in raw[key]] if _is_list(raw, key) else []


def _is_list(raw: Mapping[str, Any], key: str) -> bool:
    return isinstance(raw.get(key), list)


def _names(names: Iterable[str]) -> str:
    every = list(names)
    more = [f"{len(every) - MOST_NAMES} more"] if len(every) > MOST_NAMES else []
    return listed([*every[:MOST_NAMES], *more])
