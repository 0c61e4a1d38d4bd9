"""Docstrings name the fields and arguments that exist, and modules and files of the project."""

from __future__ import annotations

import pytest
from docstring_rules import (
    ROOT,
    code_files,
    pages,
    problems_of_package,
    problems_of_page,
    problems_of_source,
    problems_of_text,
)

CLASS = '''
class Row:
    """A row.

    Attributes:
        name: of the row; None: it has none.
        low, high: bounds,
            both in seconds: see ``name``.
        width: from low to high.
        total: of all rows.
    """

    name: str | None
    low: float
    high: float = 0.0
    kind: ClassVar[str] = "row"
    _cache: int = 0

    def __init__(self) -> None:
        self.total = 0

    @property
    def width(self) -> float:
        return self.high - self.low
'''
FUNCTION = '''
def read(self, path, *files, limit=1, _cache=None, **options):
    """Read files.

    Args:
        path: the first file.
        *files: more files.
        options: of the format: as in the manual.
        limit: of lines.

    Returns:
        rows: the lines.
    """
'''
CONSTRUCTOR = '''
class Reader:
    """Reads files.

    Args:
        path: the file.
    """

    def __init__(self, path):
        self.lines = 0
'''
RECORD = '''
@dataclass
class Reader:
    """Reads files.

    Args:
        path: the file.
    """

    path: str
    lines: int = field(init=False)
'''


def read_all(files: list[str]) -> dict[str, str]:
    return {file: (ROOT / file).read_text(encoding="utf-8") for file in files}


def test_docstrings_name_what_exists() -> None:
    assert code_files()
    problems = {file: list(problems_of_source(source)) for file, source in read_all(code_files()).items()}
    assert {file: each for file, each in problems.items() if each} == {}


def test_pages_name_modules_that_exist() -> None:
    problems = {file: list(problems_of_page(text)) for file, text in read_all(pages()).items()}
    assert {file: each for file, each in problems.items() if each} == {}


def test_packages_name_modules_that_exist() -> None:
    packages = [file for file in code_files() if file.endswith("/__init__.py")]
    assert packages
    assert [problem for file in packages for problem in problems_of_package(file)] == []


@pytest.mark.parametrize("source", [CLASS, FUNCTION, CONSTRUCTOR, RECORD])
def test_accepts_what_the_code_has(source: str) -> None:
    assert list(problems_of_source(source)) == []


@pytest.mark.parametrize(
    ("source", "old", "new", "problem"),
    [
        (CLASS, "low, high:", "low, hihg:", "has an entry for 'hihg', the code has no such name"),
        (CLASS, "low, high:", "low, hihg:", "has no entry for 'high'"),
        (CLASS, "low, high: bounds,", "low: a bound; high: another,", "has no entry for 'high'"),
        (CLASS, "    high: float = 0.0", "    high: float = 0.0\n    text: str = ''", "has no entry for 'text'"),
        (CLASS, "low, high:", "low, high, low:", "has several entries for 'low'"),
        (CLASS, "low, high:", "low and high:", "has an entry for 'low and high: bounds,', the code has no such name"),
        (CLASS, "width:", "kind_of_width:", "has an entry for 'kind_of_width', the code has no such name"),
        (FUNCTION, "limit=1", "most=1", "has an entry for 'limit', the code has no such name"),
        (FUNCTION, "limit=1", "limit=1, most=2", "has no entry for 'most'"),
        (FUNCTION, "*files,", "*,", "has an entry for 'files', the code has no such name"),
        (CONSTRUCTOR, "path:", "file:", "has no entry for 'path'"),
        (RECORD, " = field(init=False)", " = 0", "has no entry for 'lines'"),
        (CONSTRUCTOR, "the file.", "as ``sojourn.model.fram`` has it.", "sojourn.model.fram does not exist"),
        (CONSTRUCTOR, "self.lines = 0", "self.lines = 0  # see readers/recrod.py", "readers/recrod.py is not a file"),
    ],
)
def test_reports_what_the_code_does_not_have(source: str, old: str, new: str, problem: str) -> None:
    assert old in source
    assert any(problem in each for each in problems_of_source(source.replace(old, new)))


@pytest.mark.parametrize(
    "text",
    [
        "sojourn.model.frame", "``sojourn.model.frame.Requests``", "sojourn.split", "sojourn.model.dsn.Dsn.embedded",
        "sojourn.analyses.pcap", "sojourn_lab.runtime.nginx", "sojourn.conf", "readers/record.py and record.py",
        "docs/reference/record.md", "https://example.org/some/file.py", "/srv/app/wsgi.py",
    ],
)  # fmt: skip
def test_accepts_modules_and_files_that_exist(text: str) -> None:
    assert list(problems_of_text(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "sojourn.model.frames", "sojourn.model.frame.NoSuchName", "sojourn.splits", "sojourn.model.dsn.Dsn.no_name",
        "sojourn_lab.no_such_module", "readers/no_such_file.py", "no_such_file.sql", "docs/reference/no-such-page.md",
    ],
)  # fmt: skip
def test_reports_modules_and_files_that_do_not_exist(text: str) -> None:
    assert len(list(problems_of_text(text))) == 1


def test_a_page_may_name_other_languages_and_files() -> None:
    assert list(problems_of_page("sojourn.New(), sojourn.toml, sojourn.middleware.SojournFilter")) == []
    assert list(problems_of_page("`sojourn.model.no_such_module`")) == ["sojourn.model.no_such_module does not exist"]
