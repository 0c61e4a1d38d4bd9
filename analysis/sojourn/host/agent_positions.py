"""How far an agent has read the files of logs, and by what it knows a file.

Vector keeps its positions in ``<data_dir>/<source>/checkpoints.json``. With acknowledgements, a position there is what
the store has.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from sojourn.model.errors import SojournError

_POLYNOMIAL = 0x42F0E1EBA9EA3693  # CRC-64/ECMA-182
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Positions:
    """How far an agent has read.

    Attributes:
        by_line: position by the CRC-64 of a file's first line.
        by_inode: position by device and inode, of an agent that is configured so.
    """

    by_line: Mapping[int, int]
    by_inode: Mapping[tuple[int, int], int]

    @classmethod
    def of(cls, data_dir: Path) -> Positions:
        """Read the positions that Vector keeps in its ``data_dir``.

        Raises:
            SojournError: the folder, or a file of positions in it, cannot be read.
        """
        by_line: dict[int, int] = {}
        by_inode: dict[tuple[int, int], int] = {}
        try:
            files = [each / "checkpoints.json" for each in data_dir.iterdir() if each.is_dir()]
            for file in files:
                if not file.exists():  # a buffer, or a source that has read nothing
                    continue
                for each in msgspec.json.decode(file.read_bytes())["checkpoints"]:
                    fingerprint, position = each["fingerprint"], int(each["position"])
                    if "first_lines_checksum" in fingerprint:
                        by_line[int(fingerprint["first_lines_checksum"])] = position
                    elif "dev_inode" in fingerprint:
                        device, inode = fingerprint["dev_inode"]
                        by_inode[int(device), int(inode)] = position
        except OSError as error:
            raise SojournError(f"{error.filename or data_dir}: {error.strerror}") from None
        except (msgspec.DecodeError, KeyError, TypeError, ValueError):
            raise SojournError(f"{data_dir}: the positions in it are not those of Vector 0.57") from None
        return cls(by_line, by_inode)

    def at(self, checksum: int, inode: tuple[int, int] | None) -> int | None:
        """Return the position in a file; None: the agent has none of it."""
        position = self.by_line.get(checksum)
        return self.by_inode.get(inode) if position is None and inode is not None else position


@functools.cache
def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        crc = byte << 56
        for _ in range(8):
            crc = (crc << 1 ^ _POLYNOMIAL if crc >> 63 else crc << 1) & _MASK
        table.append(crc)
    return tuple(table)


@functools.lru_cache(maxsize=1024)
def checksum_of(line: bytes) -> int:
    """Return the CRC-64/ECMA-182 of a line with its newline: Vector's ``fingerprint.strategy: checksum``, one line."""
    table, crc = _table(), 0
    for byte in line:
        crc = table[(crc >> 56) ^ byte] ^ crc << 8 & _MASK
    return crc
