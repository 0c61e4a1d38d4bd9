"""Take lines out of the lines of another log around them, between the splitting into lines and their recognition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import polars as pl

from sojourn.model.arrays import Ints
from sojourn.readers.formats.detect import LINES
from sojourn.readers.formats.wrapping import HEADER, UNFINISHED, Layer, fitting_wrapping, recognised_wrapping
from sojourn.readers.inputs import Begun, LogInput
from sojourn.readers.lines import LINE_LIMIT, Block, refusal
from sojourn.readers.tables.table_format import TableFormat

SPREAD = 10_000  # lines of a log that its format is recognised among
BEGINNING = 200  # characters of a refused line
Refusals = list[tuple[int, str, str]]
NONE = pl.Series([], dtype=pl.Boolean)


def bare_blocks(log: LogInput, blocks: Iterator[Block]) -> Iterator[Block]:
    """Yield the blocks of a log with the lines within its lines, and the refusals of lines that were never finished."""
    for block in blocks:
        yield bare_block(log, block)
    for begun in log.begun.values():
        if begun.text is not None:
            yield refusal(begun.number, "incomplete_line", begun.text[:BEGINNING], begun.position)
    log.begun.clear()


def bare_block(log: LogInput, block: Block) -> Block:
    """Return the next block of a log with the lines within its lines; the first ones decide what is around them."""
    if isinstance(log.form, TableFormat):
        return block
    wrapping = log.wrapping
    if wrapping is None and len(block):
        first = first_lines(block)
        wrapping, is_recognised = fitting_wrapping(first, log.form) if log.recognised else recognised_wrapping(first)
        if is_recognised or len(block) >= LINES:
            log.wrapping = wrapping
    if not wrapping or not len(block):
        return block
    lines, refused = block.lines, list(block.refused)
    for depth, layer in enumerate(wrapping):
        lines = _layer_removed(log, block, lines, layer, depth, refused)
    return _block_of(block, lines, refused)


def first_lines(block: Block) -> list[str]:
    """Return the lines that a format is recognised by: half are the first, half are spread."""
    return block.lines_at(block.positions[_sampled(len(block))]).to_list()


def _sampled(count: int) -> Ints:
    if count <= LINES:
        return np.arange(count)
    spread = np.linspace(LINES // 2, min(count, SPREAD), LINES - LINES // 2, endpoint=False, dtype=np.int64)
    return np.concatenate([np.arange(LINES // 2), spread])


def _layer_removed(
    log: LogInput, block: Block, lines: pl.Series, layer: Layer, depth: int, refused: Refusals
) -> pl.Series:
    """Return the lines within lines of a block; null where there is none: the line is refused, or not finished."""
    if layer.key:
        around = lines.to_list()
        values = zip(around, layer.values(around), strict=True)
        inner = pl.Series([line if value is None else value for line, value in values], dtype=pl.String)
        unfinished = ~inner.str.ends_with("\n")
    else:
        inner = lines.str.replace(f"^{HEADER}", "")
        unfinished = lines.str.contains(f"^{UNFINISHED}") if layer.partial else NONE
    if layer.partial and (unfinished.any() or any(at == depth for at, _ in log.begun)):
        return _joined(log, block, lines, layer, depth, refused)
    return _ended(inner) if unfinished.any() else inner


def _joined(log: LogInput, block: Block, lines: pl.Series, layer: Layer, depth: int, refused: Refusals) -> pl.Series:
    """Return the lines within lines, whose parts are joined, at the place of the last part."""
    result: list[str | None] = []
    for number, line in zip(block.numbers.tolist(), lines.to_list(), strict=True):
        part = None if line is None else layer.part(line)
        if line is None or part is None:
            result.append(None if line is None else layer.bare(line))
            continue
        before = log.begun.pop((depth, part.stream), None)
        text = part.text if before is None else None if before.text is None else before.text + part.text
        if text is not None and len(text) > LINE_LIMIT:
            refused.append((number, "line_too_long", text[:BEGINNING]))
            text = None
        if not part.is_last:
            log.begun[depth, part.stream] = Begun(text, number, block.position(number))
            text = None
        elif before is None:
            text = layer.bare(line)
        elif text is not None:
            text = layer.whole(text)
        result.append(text)
    return _ended(pl.Series(result, dtype=pl.String))


def _ended(lines: pl.Series) -> pl.Series:
    """Return lines with one line end each."""
    return lines.str.strip_chars_end("\n") + "\n"


def _block_of(block: Block, lines: pl.Series, refused: Refusals) -> Block:
    """Return a block with other lines, which lie in the input where those of ``block`` do."""
    text: str = lines.str.join("").item()
    if text.count("\n") != len(lines) - lines.null_count():
        lines = _on_one_line(block, lines, refused)
        text = lines.str.join("").item()
    lengths = np.zeros(len(block.ends), np.int32)
    lengths[block.positions + 1] = lines.str.len_bytes().fill_null(0).to_numpy()
    return replace(
        block,
        data=np.frombuffer(text.encode(), np.uint8).copy(),  # what is compiled takes arrays that can be written to
        ends=np.cumsum(lengths, dtype=np.int32),
        input_ends=block.ends,
        refused=refused,
        accepted=block.positions[lines.is_not_null().to_numpy()] if lines.null_count() else block.accepted,
    )


def _on_one_line(block: Block, lines: pl.Series, refused: Refusals) -> pl.Series:
    """Return lines without line ends within: blanks in a JSON object, and otherwise no line of any format."""
    lines = _ended(lines)
    several = (lines.str.count_matches("\n", literal=True) > 1).fill_null(False)
    within = lines.str.strip_chars_end("\n").str.replace_all("\n", "\r", literal=True) + "\n"
    is_object = lines.str.contains(r"^\s*\{").fill_null(False)
    other = several & ~is_object
    refused += [
        (number, "other_format", line[:BEGINNING])
        for number, line in zip(block.numbers[other.to_numpy()].tolist(), lines.filter(other).to_list(), strict=True)
    ]
    return within.zip_with(several & is_object, lines).set(other, None)
