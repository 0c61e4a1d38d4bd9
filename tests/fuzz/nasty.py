"""What parsers stumble over, drawn at random: numbers, texts, JSON, and what damage does to bytes."""

from __future__ import annotations

import json
from random import Random
from typing import Any

NUMBERS = (
    "0", "-0", "0.0", "-0.0", "1", "-1", "0.001", "0.0005", "0.0000005", "0.0000015", "-0.001", "1e-9", "1e-400",
    "5e-324", "1e3", "1E3", "1e9", "-1e9", "999999999.999999", "1000000000", "4e12", "1e15", "1e18", "1e19", "1e300",
    "1e400", "-1e400", "nan", "NaN", "inf", "-inf", "Infinity", "1_000", "1__0", "_1", "0x10", "0b1", "1.", ".5", ".",
    "+1", "+-1", "--1", "1,5", "1 2", " 1", "1 ", "\t1", "1\n", "1e", "1e+", "\uff11\uff12", "\u0661\u0662", "\u00b2",
    "\u00bd", "1\u066b5", "\u22121", "1\u00a0000", "9" * 19, "9" * 40, "9" * 400, "9" * 5000, "9223372036854775807",
    "9223372036854775808", "-9223372036854775809", "18446744073709551616", "2147483648", "32768", "65536", "00.5",
    "007", "1.5.2", "1:2", "0.1s", "true", "None", "null", "-", "",
)  # fmt: skip
INSTANTS = (
    "1767225600.123", "1767225600", "1767225599.999999", "1767225599877", "1767225599877123", "1767225599877123456",
    "1000000000", "999999999.999", "9999999999.999", "9999999999.9999999", "10000000000", "0", "-1767225600.0",
    "1.767225600123e9", "t=1767225600.123",
)  # fmt: skip
TEXTS = (
    "", "-", " ", "a", "/", "\u00e9", "\u0000", "\u0000x", "\u202e", "\u2028", "\ufeff", "\ufffd", "\U0001f40d",
    "\ud800", "\x1b[31m", "\r\n", "a\r\nX: y", "<script>", "{{7*7}}", "';--", "=1+1", "../../etc/passwd",
    "%0d%0a", "%",
    "$(x)", "${jndi:x}", "\\", '"', "'", ",", ":", " : ", ", ", ",,", "a" * 300, "\ufb00", "\u0130", "\u01c5",
    "e\u0301",
    "null", "NaN",
)  # fmt: skip
SCALARS = (None, True, False, 0, -1, 1, 10**9, 2**63, 2**64, 10**30, 10**400, 0.0, -0.0, 0.5, 1e300, 5e-324, 1e9)
EMPTY: tuple[Any, ...] = ((), {}, ("",), (0,), {"": ""})


def number(rng: Random) -> str:
    """A number, or what looks like one."""
    kind = rng.random()
    if kind < 0.45:
        return rng.choice(NUMBERS)
    if kind < 0.75:
        return f"{rng.uniform(-1, 100):.{rng.randrange(10)}f}"
    if kind < 0.9:
        return f"{rng.choice(('', '-', '+'))}{rng.randrange(10 ** rng.randrange(1, 20))}e{rng.randrange(-20, 20)}"
    return repr(rng.uniform(-1, 1) * 10.0 ** rng.randrange(-310, 309))


def text(rng: Random) -> str:
    """A short text of anything."""
    if rng.random() < 0.6:
        return rng.choice(TEXTS)
    tops = (127, 0x300, 0xD800)
    return "".join(chr(rng.randrange(32, rng.choice(tops))) for _ in range(8))


def value(rng: Random, depth: int = 2) -> Any:
    """Anything that JSON can hold."""
    kind = rng.randrange(9 if depth else 7)
    if kind < 4:
        return number(rng) if kind < 2 else text(rng)
    if kind < 7:
        return rng.choice(SCALARS if kind < 6 else EMPTY)
    if kind == 7:
        return [value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {text(rng): value(rng, depth - 1) for _ in range(rng.randrange(3))}


def dumped(one: Any, rng: Random) -> bytes:
    """JSON; now and then with bytes that are not UTF-8, or a number that no float holds."""
    written = json.dumps(one, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    return damaged(written, rng) if rng.random() < 0.1 else written


def damaged(data: bytes, rng: Random, most: int = 4) -> bytes:
    """The same bytes after a few accidents: a bit turned over, a stretch lost, doubled, moved, or cut off."""
    result = bytearray(data)
    for _ in range(rng.randrange(1, most + 1)):
        at, length = rng.randrange(len(result) + 1), rng.choice((1, 1, 2, 4, 16))
        kind = rng.randrange(6)
        if kind == 0 and result:
            result[at % len(result)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del result[at : at + length]
        elif kind == 2:
            result[at:at] = result[at : at + length]
        elif kind == 3:
            result[at:at] = rng.choice((*NUMBERS, *TEXTS)).encode("utf-8", "surrogatepass")
        elif kind == 4:
            result[at : at + length] = rng.randbytes(length)
        elif rng.random() < 0.3:
            del result[at:]
    return bytes(result)
