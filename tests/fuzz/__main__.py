"""Look for inputs that break a promise: ``python -m fuzz TARGET… --seconds 60``, with the folder tests on PYTHONPATH.

Atheris (libFuzzer) leads the search by what code an input reaches; ``--blind`` does without it and draws from the
target's own generator alone, which is as good where the work is done in native code. A failing input is written to a
file, and its name printed; put it into ``tests/fuzz/corpus/TARGET`` under a name that says what it is.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType

from fuzz.corpus import FOLDER, NAMES, inputs, target
from fuzz.nasty import damaged

MEMORY_MB = 2048
BATCH = 200


def main() -> int:
    """Exit code: 0 if no input fails."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "names", nargs="*", metavar="TARGET", help=f"what is fuzzed: {', '.join(NAMES)}; all by default"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long")
    parser.add_argument("--seed", type=int, default=0, help="of the draws; 0: another one each time")
    parser.add_argument("--blind", action="store_true", help="without atheris")
    parser.add_argument(
        "--peers", action="store_true", help="compare with the other languages, in batches, and no more"
    )
    parser.add_argument(
        "--work", type=Path, default=Path(tempfile.gettempdir(), "sojourn-fuzz"), help="for what it writes"
    )
    options = parser.parse_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"there is no target {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    if len(options.names) != 1:  # each in a process of its own, which libFuzzer ends
        arguments = [argument for argument in sys.argv[1:] if argument not in options.names]
        return max(subprocess.call([sys.executable, "-m", "fuzz", name, *arguments]) for name in options.names or NAMES)
    options.name = options.names[0]
    work = options.work / options.name
    for folder in (work / "corpus", work / "findings"):
        folder.mkdir(parents=True, exist_ok=True)
    seed = options.seed or random.SystemRandom().randrange(1, 1 << 31)
    blind = not target(options.name).PACKAGES or importlib.util.find_spec("atheris") is None
    if blind or options.blind or options.peers:
        return _blind(target(options.name), options, work, seed)
    return _led(options, work, seed)


def _led(options: argparse.Namespace, work: Path, seed: int) -> int:
    import atheris  # noqa: PLC0415 - only where it is used

    sys.argv = [
        options.name, str(work / "corpus"), str(FOLDER / options.name), f"-max_total_time={int(options.seconds)}",
        f"-rss_limit_mb={MEMORY_MB}", "-timeout=30", f"-artifact_prefix={work / 'findings'}{os.sep}", f"-seed={seed}",
        "-print_final_stats=1", "-verbosity=0", "-max_len=20000",
    ]  # fmt: skip
    (FOLDER / options.name).mkdir(exist_ok=True)
    packages = target(options.name).PACKAGES
    for name in [name for name in sys.modules if name.startswith((*packages, "fuzz.targets"))]:
        del sys.modules[name]
    with atheris.instrument_imports(include=list(packages), exclude=_compiled(packages)):
        module = target(options.name)

    def mutated(data: bytes, most: int, number: int) -> bytes:
        rng = random.Random(number)
        kind = rng.random()
        if kind < 0.3:
            return bytes(module.generated(rng)[:most])
        if kind < 0.6:
            return damaged(data, rng)[:most]
        return bytes(atheris.Mutate(data, most))

    atheris.Setup(sys.argv, module.check, custom_mutator=mutated)
    atheris.Fuzz()
    return 0


def _compiled(packages: Sequence[str]) -> list[str]:
    """The modules that numba compiles: no line may be added to them."""
    matches = []
    for package in packages:
        spec = importlib.util.find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            for path in Path(folder).rglob("*.py"):
                if re.search(r"\bnumba\b|\.compiled\b", path.read_text("utf-8")):
                    inner = path.relative_to(folder).with_suffix("").parts
                    matches.append(".".join((package, *inner)).removesuffix(".__init__"))
    return matches


def _blind(module: ModuleType, options: argparse.Namespace, work: Path, seed: int) -> int:
    rng = random.Random(seed)
    kept = [path.read_bytes() for path in inputs(options.name)]
    # Where lines stand by themselves a batch is one input, and is taken apart only where it is at fault.
    joined = getattr(module, "JOINED", False)
    done, result, begun = 0, 0, time.monotonic()
    while time.monotonic() - begun < options.seconds:
        batch = [_drawn(module, kept, rng) for _ in range(BATCH if joined or options.peers else 1)]
        if options.peers:
            result += _kept(work, batch, partial(module.compare, batch))
        elif not joined or _fault(partial(module.check, b"\n".join(batch))):
            result += sum(_kept(work, [data], partial(module.check, data)) for data in batch)
        done += len(batch)
    print(f"{options.name}: {done} inputs in {time.monotonic() - begun:.0f} s, seed {seed}: {result} findings")
    return 1 if result else 0


def _drawn(module: ModuleType, kept: list[bytes], rng: random.Random) -> bytes:
    data: bytes = module.generated(rng) if not kept or rng.random() < 0.7 else rng.choice(kept)
    return damaged(data, rng) if rng.random() < 0.4 else data


def _fault(tried: Callable[[], None]) -> BaseException | None:
    try:
        tried()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # what an engine written in Rust raises when it gives up is no Exception
        return error
    return None


def _kept(work: Path, batch: list[bytes], tried: Callable[[], None]) -> int:
    """One finding a place: what goes wrong there again is the same."""
    error = _fault(tried)
    if error is None:
        return 0
    places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    file = work / "findings" / hashlib.sha256(repr(places).encode()).hexdigest()[:12]
    if file.exists():
        return 0
    file.write_bytes(b"\n".join(batch))
    print(f"{file}: {''.join(traceback.format_exception(error))[-1500:]}", flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
