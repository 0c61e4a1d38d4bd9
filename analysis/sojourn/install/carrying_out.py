"""Carry out an installation or a removal: write, test, reload, send the requests; put everything back otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sojourn.doctor.doctor import diagnose
from sojourn.doctor.findings import ERROR, Diagnosis, Finding
from sojourn.doctor.nginx_records import LEAN
from sojourn.install.changes import is_off
from sojourn.install.files import backup_folder
from sojourn.install.nginx_program import reload
from sojourn.install.proposal import DENIED, Proposal
from sojourn.install.targets import Target, target_of
from sojourn.install.trial import Trial, tried
from sojourn.model.errors import SojournError
from sojourn.model.formatting import counted, printable


@dataclass
class Outcome:
    """What was done.

    Attributes:
        backup: the folder with the files as they were.
        reloaded: whether a running nginx uses the new configuration.
        trials: the requests that were sent.
        untried: sentences about locations without a request.
        diagnosis: the doctor's, of the new configuration and its log.
    """

    backup: Path
    reloaded: bool
    trials: list[Trial] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)
    diagnosis: Diagnosis = field(default_factory=Diagnosis)


def carried_out(
    proposal: Proposal,
    *,
    try_requests: bool = True,
    backups: Path | None = None,
    on_step: Callable[[str], None] = print,
) -> Outcome:
    """Write the files, test and reload nginx, send the requests; put everything back if one of these fails.

    Args:
        proposal: an installation or a removal.
        try_requests: send one request through each changed location.
        backups: the folder of backups; None: see ``backup_folder``.
        on_step: is called with a sentence about each step.

    Raises:
        SojournError: a step failed; the files are as before.
    """
    program = proposal.program
    if program is None:
        raise SojournError("nginx is not installed here: without it, the changes cannot be tested; nothing was changed")
    refused_before = program.refusal(proposal.conf)
    if DENIED in (refused_before or ""):
        raise SojournError(
            f"nginx cannot test the configuration: {refused_before}; nothing was changed: run this as root"
        )
    errors_before = _errors(proposal) if proposal.plan.passes else set()
    backup = proposal.writing.backup(backups or backup_folder())
    on_step(f"backup: {backup}")
    outcome = Outcome(backup, False)
    try:
        proposal.writing.write()
        refusal = program.refusal(proposal.conf)
        if refusal is not None and refusal != refused_before:
            raise SojournError(f"nginx refuses the new configuration: {refusal}")
        on_step("nginx accepts the configuration" if refusal is None else f"nginx refuses it, as before: {refusal}")
        if refusal is None and proposal.master is not None:
            if (reason := reload(proposal.master)) is not None:
                raise SojournError(reason)
            outcome.reloaded = True
            on_step("nginx: reloaded")
        if proposal.plan.passes:
            _verify(proposal, outcome, errors_before, try_requests=try_requests)
    except BaseException as error:
        proposal.writing.undo()
        state = "All files are as before."
        if proposal.master is not None:
            reason = reload(proposal.master)
            state = "All files are as before, and nginx uses them." if reason is None else f"{state} But {reason}."
        if isinstance(error, SojournError):
            raise SojournError(f"{error}. {state}") from None
        raise
    return outcome


def _verify(proposal: Proposal, outcome: Outcome, errors_before: set[tuple[str, str]], *, try_requests: bool) -> None:
    """Send the requests and ask the doctor.

    Raises:
        SojournError: a request shows that something is wrong, or the doctor reports an error that was not there before.
    """
    if outcome.reloaded and try_requests:
        targets = _targets(proposal, outcome.untried)
        outcome.trials = tried(targets, proposal.log, proposal.plan.unstamped)
        failures = [(each, each.failure) for each in outcome.trials if each.failure is not None]
        if failures:
            trial, reason = failures[0]
            more = f", and {counted(len(failures) - 1, 'more request')} failed" if len(failures) > 1 else ""
            raise SojournError(f"GET {printable(trial.target.path)} of {trial.target.level.title}: {reason}{more}")
    logs = [proposal.log] if outcome.trials and any(each.line for each in outcome.trials) else []
    outcome.diagnosis = diagnose([str(proposal.conf), *logs])
    changed_titles = {title for each in proposal.plan.passes for title in (each.level.title, "http")}
    for each in outcome.diagnosis.findings:
        if each.code == "log-stamp" and proposal.plan.unstamped:  # the user has chosen so
            continue
        if each.severity == ERROR and _key(each) not in errors_before and each.subject in changed_titles:
            raise SojournError(f"sojourn doctor: {each.what} {each.why}")


def _errors(proposal: Proposal) -> set[tuple[str, str]]:
    findings = diagnose([str(proposal.conf)]).findings
    return {_key(each) for each in findings if each.severity == ERROR}


def _key(finding: Finding) -> tuple[str, str]:
    return finding.code, finding.subject


def _targets(proposal: Proposal, untried: list[str]) -> list[Target]:
    targets: dict[tuple[object, ...], Target] = {}
    for each in proposal.plan.passes:
        if is_off(each.block.effective("access_log")) and each.level not in proposal.plan.logs:
            untried.append(f"{each.level.title}: no request was sent, because it is not logged")
            continue
        target = target_of(each.level)
        if isinstance(target, str):
            untried.append(f"{each.level.title}: no request was sent, because {target}")
        elif target.http2 and proposal.record is LEAN:
            untried.append(
                f"{each.level.title}: no request was sent, because the lean record does not show which one it is over "
                "HTTP/2"
            )
        else:
            targets.setdefault((target.address, target.host, target.path), target)
    return list(targets.values())
