"""``python -m systems``: the study of all kinds of systems, or of one."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import systems.kinds  # noqa: F401 - registers the kinds
from systems.contended_study import studied_in_parallel, table
from systems.page import page
from systems.plain_systems import plain_system
from systems.registry import KINDS
from systems.study import RIGHT, studied

CONTENDED = 200  # systems that share a resource, for the page


def main(arguments: list[str] | None = None) -> int:
    """Run the study; print the page, or the statements on the kinds that are named."""
    parser = argparse.ArgumentParser(prog="python -m systems", description=__doc__)
    parser.add_argument("--kind", action="append", choices=sorted(KINDS), help="study this kind only; repeatable")
    parser.add_argument("--log", type=Path, metavar="DIR", help="write the logs to a folder and keep them")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--publish", type=Path, metavar="DIR", help="write systems.md to a folder")
    parser.add_argument("--plain", type=int, default=0, metavar="N", help="study N plain systems drawn at random")
    parser.add_argument("--contended", type=int, default=0, metavar="N", help="study N systems that share a resource")
    options = parser.parse_args(arguments)
    if options.contended:
        sys.stdout.write(table(studied_in_parallel(options.contended)))
        return 0
    if options.log:
        options.log.mkdir(parents=True, exist_ok=True)
    kinds = [KINDS[name] for name in options.kind or KINDS]
    if options.plain:
        kinds = [plain_system(seed) for seed in range(options.plain)]
    findings = [studied(each, options.log, plain=not options.plain) for each in kinds]
    if options.publish:
        (options.publish / "systems.md").write_text(page(findings, table(studied_in_parallel(CONTENDED))))
    elif options.json:
        json.dump([finding.to_dict() for finding in findings], sys.stdout, indent=1)
        sys.stdout.write("\n")
    elif options.kind or options.plain:
        for finding in findings:
            sys.stdout.write(f"{finding.kind}: {finding.truth}\n")
            every = [("", finding.statements), ("plain log: ", finding.plain)]
            for log, each in ((log, each) for log, statements in every for each in statements):
                if options.plain and each.judgement == RIGHT:
                    continue
                sys.stdout.write(f"  {each.judgement:8} {log}{each.about}: {each.said}\n{'':11}truth: {each.truth}\n")
    else:
        sys.stdout.write(page(findings, ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
