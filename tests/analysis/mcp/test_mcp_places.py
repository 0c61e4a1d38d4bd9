"""Files are read inside the folders only, however they are named; stores only if they were named at the start."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from sojourn.mcp import listing, places
from sojourn.mcp.places import Places
from sojourn.model.errors import ArgumentError, SojournError

STORE = "clickhouse://reader:hush%40@db.example:8123/logs"
NAME = "clickhouse://reader@db.example:8123/logs"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with logs, and beside it others that are not to be read."""
    for name in ("logs/a.log", "logs/old/b.log", "logs-secret/s.log", "other/o.log", "run/access.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text\n")
    logs = tmp_path / "logs"
    (logs / "out.log").symlink_to(tmp_path / "other/o.log")
    (logs / "gone.log").symlink_to(tmp_path / "other/missing.log")
    (logs / "out").symlink_to(tmp_path / "other")
    (logs / "in.log").symlink_to(logs / "old/b.log")
    (logs / "run").mkdir()
    (logs / "run/access.jsonl").symlink_to(tmp_path / "run/access.jsonl")
    os.mkfifo(logs / "pipe")
    return logs


@pytest.mark.parametrize(
    "text", ["a.log", "old/b.log", "old/../a.log", "in.log", "old", "old/*.log", "missing", "[a].log"]
)
def test_names_inside_are_absolute_paths_in_the_folder(folder: Path, text: str) -> None:
    for name in (text, str(folder / text)):
        assert Places([str(folder)]).source(name) == os.path.normpath(folder / text)


@pytest.mark.parametrize(
    "text",
    [
        "/etc/passwd", "..", "../other/o.log", "old/../../other/o.log", "../logs-secret/s.log", "../logs-secret", "/",
        "out.log", "gone.log", "out", "out/o.log", "out/missing", "out/*.log", "*.log", "*/o.log", "**/*.log", "run",
        "run/access.jsonl", "/etc/*", "//etc/passwd", "old/*/../../../other/o.log",
    ],
)  # fmt: skip
def test_names_outside_are_refused(folder: Path, text: str) -> None:
    with pytest.raises(ArgumentError, match="outside"):
        Places([str(folder)]).source(text)


def test_the_refusal_does_not_depend_on_what_is_outside(folder: Path) -> None:
    sentences = []
    for name in ("o.log", "missing.log"):
        with pytest.raises(ArgumentError) as error:
            Places([str(folder)]).file(f"../other/{name}")
        sentences.append(str(error.value).replace(name, ""))
    assert sentences[0] == sentences[1]


@pytest.mark.parametrize("text", ["-", "", "-x", "@a.log", "pipe"])
def test_what_is_no_file_is_refused(folder: Path, text: str) -> None:
    with pytest.raises(ArgumentError, match="not "):
        Places([str(folder)]).file(text)


def test_a_name_that_the_system_cannot_look_up_is_an_error(folder: Path) -> None:
    with pytest.raises(SojournError, match="too long"):
        Places([str(folder)]).file("x" * 3_000)


def test_a_folder_may_itself_be_a_link(folder: Path) -> None:
    link = folder.parent / "link"
    link.symlink_to(folder)
    of_link = Places([str(link)])
    assert of_link.file("a.log") == str(link / "a.log")
    assert of_link.file(str(folder / "a.log")) == str(folder / "a.log")
    with pytest.raises(ArgumentError, match="outside"):
        of_link.file("../other/o.log")


def test_a_relative_name_is_looked_up_in_each_folder(folder: Path) -> None:
    other = folder.parent / "other"
    assert Places([str(folder), str(other)]).file("o.log") == str(other / "o.log")
    # The link out of the one leads into the other.
    assert Places([str(folder), str(other)]).file("out.log") == str(folder / "out.log")


def test_more_matches_than_are_checked_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "MOST_FILES", 3)
    for number in range(4):
        (folder / f"old/{number}.txt").write_text("")
    with pytest.raises(ArgumentError, match="more than 3"):
        Places([str(folder)]).file("old/*.txt")
    with pytest.raises(ArgumentError, match="more than 3"):
        Places([str(folder)]).file("old")


@pytest.mark.parametrize(
    "text",
    ["clickhouse://db.example/logs", "chdb:///var/lib/x", "http://x/y", "file:///etc/passwd", f"{STORE}?timeout=1"],
)
def test_other_stores_are_refused(folder: Path, text: str) -> None:
    with pytest.raises(ArgumentError, match="not a store of this server") as error:
        Places([str(folder)], [STORE]).source(text)
    assert NAME in str(error.value)
    assert "hush" not in str(error.value)


def test_a_store_has_its_name_without_the_password() -> None:
    of_store = Places([], [STORE])
    assert of_store.source(NAME) == of_store.source(STORE) == STORE
    assert of_store.without_passwords(f"no answer from {STORE}: hush@") == f"no answer from {NAME}: …"
    with pytest.raises(ArgumentError):
        of_store.file("a.log")


def test_folders_and_stores_are_checked_at_the_start(folder: Path) -> None:
    for folders, stores in (([], []), ([str(folder / "a.log")], []), ([str(folder)], ["mysql://x"])):
        with pytest.raises(SojournError):
            Places(folders, stores)


def test_the_listing_has_the_files_that_can_be_read(folder: Path) -> None:
    (folder / "x.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n"))
    (folder / "broken.gz").write_bytes(gzip.compress(b"text" * 100)[:20])
    (folder / "empty").write_bytes(b"")
    os.utime(folder / "a.log", (2e9, 2e9))
    result = listing.listing(Places([str(folder)], [STORE]))
    assert result["folders"] == [str(folder)]
    assert result["stores"] == [NAME]
    assert result["files_in_all"] == len(result["files"]) == 6
    assert result["files"][0] == {
        "path": str(folder / "a.log"), "bytes": 5, "written": "2033-05-18T03:33:20.000Z", "kind": "unknown",
    }  # fmt: skip
    kinds = {os.path.relpath(file["path"], folder): file["kind"].partition(";")[0] for file in result["files"]}
    assert kinds == {
        "a.log": "unknown", "old/b.log": "unknown", "in.log": "unknown", "x.csv.gz": "table", "empty": "empty",
        "broken.gz": "unreadable (damaged)",
    }  # fmt: skip
    assert [file["path"] for file in listing.listing(Places([str(folder)]), "old")["files"]] == [
        str(folder / "old/b.log")
    ]
    assert len(listing.listing(Places([str(folder)]), limit=2)["files"]) == 2
    with pytest.raises(ArgumentError):
        listing.listing(Places([str(folder)]), "a.log")


def test_the_listing_recognises_files_by_their_content() -> None:
    examples = Path(__file__).parents[3] / "docs/examples"
    kinds = {name: listing.kind_of(str(examples / name)) for name in (
        "shop.jsonl.gz", "shop-spans.jsonl.gz", "plain.log.gz", "kernel.jsonl.gz", "wire.pcap.gz", "sojourn.toml",
    )}  # fmt: skip
    assert kinds["shop.jsonl.gz"] == "log, Sojourn's record"
    assert kinds["shop-spans.jsonl.gz"] == listing.SPANS
    assert kinds["kernel.jsonl.gz"] == listing.KERNEL
    assert kinds["wire.pcap.gz"] == "capture of packets"
    assert kinds["sojourn.toml"] == "unknown"
    assert kinds["plain.log.gz"].startswith("log, nginx's combined format")
