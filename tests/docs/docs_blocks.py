"""The code blocks of the documentation, each with its kind: by its fence, else by its first word."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docs_support import ROOT

LEFT_OUT = {".venv", ".tools", ".pytest_cache", "runs", "site", "node_modules", "dist", "build"}
FENCED = re.compile(r"^( *)```([a-z]*)[^\n]*\n(.*?)^\1```[ ]*$", re.M | re.S)
INDENTED = re.compile(r"(?:^    .*\n|^[ \t]*\n(?=    ))+", re.M)
NAMES = {"sh": "shell", "bash": "shell", "console": "console", "": "", "text": "", "yml": "yaml"}

# A block without a label is a command when it begins with one of these.
WORDS = (
    "SOJOURN_", "apt", "awk", "bash", "bpftrace", "cargo", "cat", "cd", "chmod", "cp", "curl", "docker", "echo",
    "export", "for", "git", "goaccess", "grep", "gunicorn", "kafka-", "kill", "kubectl", "make", "man", "mkdir",
    "nginx -", "pip", "python", "sed", "sojourn", "sudo", "systemctl", "tail", "tcpdump", "tmux", "uv", "vector",
    "while", ".venv/bin/",
)  # fmt: skip


@dataclass(frozen=True)
class Block:
    """A block of code: its page, its text, and its kind: a language, shell, console, usage, example or prose."""

    page: Path
    kind: str
    text: str

    @property
    def name(self) -> str:
        """For messages: the page and how the block begins."""
        return f"{self.page.relative_to(ROOT)}: {self.text.splitlines()[0][:60]}"


def pages() -> list[Path]:
    """Every Markdown page of the project."""
    paths = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = set(folders) - LEFT_OUT  # which hold far more files than the project
        paths += [Path(folder, file) for file in files if file.endswith(".md")]
    return sorted(paths)


def blocks_of(page: Path) -> Iterator[Block]:
    """The blocks of a page, in no particular order."""
    text = page.read_text(encoding="utf-8")
    matches = [(language, body) for _, language, body in FENCED.findall(text)]
    matches += [("", body) for body in INDENTED.findall(FENCED.sub("", text) + "\n") if not _of_a_list(body)]
    for language, body in matches:
        plain = textwrap.dedent(body).strip("\n")
        if plain.strip():
            yield Block(page, _kind(NAMES.get(language, language), plain), plain)


def _of_a_list(body: str) -> bool:
    """Text that goes on under a list item is indented, too."""
    return re.match(r"    (?:[-*] |\d+\. )", body) is not None


def _kind(output: str, text: str) -> str:
    first = text.lstrip().splitlines()[0]
    if first.startswith("$ sojourn ") and output in ("", "console"):
        return "example"  # run by test_examples.py, with its output
    if output:
        return output
    if re.match(r"(\.venv/bin/)?sojourn .*(\[-|\[[A-Z]|…\]|[A-Z]…)", first):
        return "usage"
    guesses = (
        (r"(import|from) [a-z_.]+|app = ", "python"),
        (r"(http|server|location|map|load_module|upstream)\b.*[{;]", "nginx"),
        (r"SELECT ", "sql"),
        (r"\*/\d+ ", "crontab"),
        (r"require_relative |use ", "ruby"),
    )
    for pattern, kind in guesses:
        if re.match(pattern, first):
            return kind
    if first.startswith("$ "):
        return "console"
    return "shell" if first.startswith(WORDS) and not re.match(r"[a-z./]+/ ", first) else "prose"


def shell_of(block: Block) -> str:
    """What is typed, of a block of commands."""
    if block.kind != "console":
        return block.text
    lines = re.findall(r"^\$ ((?:.*\\\n)*.*)$", block.text, re.M)
    return "\n".join(lines)
