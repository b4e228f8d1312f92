"""Damage of every file of an index, folders that are not ours, and readers of what was rebuilt."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from worlds import HashedWords, write_corpus

from retriever import Index, InputError, Retriever, RetrieverConfig, build_index
from retriever.index.chunks import ChunkTable
from retriever.index.manifest import building

ENCODERS = {"eagle_text": HashedWords()}
GENERAL = RetrieverConfig(namespace="general")
TEXTS = {f"d{i}": f"egfr inhibitor number {i} of many" for i in range(6)}
COLLECTION = "collections/eagle_text"
FILES = [
    *("chunks.arrow", f"{COLLECTION}/rows.npy", f"{COLLECTION}/dense/vectors.faiss"),
    *(f"{COLLECTION}/bm25/{name}" for name in ("terms.json", "indptr.npy", "rows.npy")),
    f"{COLLECTION}/bm25/shares.npy",
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    write_corpus(folder / "c", TEXTS)
    build_index(folder / "c", folder / "index", GENERAL, encoders=ENCODERS)
    return folder


@pytest.fixture
def index(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "index", tmp_path / "index"))


def search(index: Path) -> list[str]:
    hits = Retriever.open(index, GENERAL, encoders=ENCODERS).search("egfr number 3").hits
    return [hit.document_id for hit in hits]


def contents(folder: Path) -> dict[str, bytes | None]:
    return {
        str(file.relative_to(folder)): file.read_bytes() if file.is_file() else None
        for file in folder.rglob("*")
    }


@pytest.mark.parametrize("name", FILES)
def test_overwritten_file_is_one_line_and_built_anew(made: Path, index: Path, name: str) -> None:
    file = Index.open(index).folder / name
    file.write_bytes(b"\xff" * file.stat().st_size)
    if not name.endswith("shares.npy"):
        with pytest.raises(InputError, match=r": damaged.*\(build the index anew\)$") as caught:
            search(index)
        assert str(file) in str(caught.value)
        assert "\n" not in str(caught.value)
    report = build_index(made / "c", index, GENERAL, encoders=ENCODERS)
    assert report.built
    assert search(index) == search(made / "index")
    report.index.verify()


@pytest.mark.parametrize("name", FILES)
def test_flipped_bytes_never_give_a_traceback(index: Path, name: str) -> None:
    file = Index.open(index).folder / name
    whole = file.read_bytes()
    random = np.random.default_rng(len(name))
    for place in random.choice(len(whole), size=min(60, len(whole)), replace=False):
        damaged = bytearray(whole)
        damaged[place] ^= int(random.integers(1, 256))
        file.write_bytes(damaged)
        try:
            search(index)
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017


def test_flipped_byte_in_the_registry_never_gives_a_traceback(index: Path) -> None:
    file = Index.open(index).folder / "registry.sqlite"
    whole = file.read_bytes()
    # The schema: SQLite quotes it in its messages, text or not.
    for place in range(whole.index(b"CREATE TABLE"), whole.index(b"CREATE TABLE") + 60):
        file.write_bytes(whole[:place] + b"\xdc" + whole[place + 1 :])
        registry = Index.open(index).registry
        try:
            registry.get("index", ["d1"])
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017
        registry.close()


def test_changed_content_of_the_same_size_is_built_anew(made: Path, index: Path) -> None:
    vectors = Index.open(index).folder / COLLECTION / "dense" / "vectors.faiss"
    content = bytearray(vectors.read_bytes())
    content[-1] ^= 1
    vectors.write_bytes(content)
    assert build_index(made / "c", index, GENERAL, encoders=ENCODERS).built
    assert not build_index(made / "c", index, GENERAL, encoders=ENCODERS).built
    Index.open(index).verify()


def test_wrong_offset_of_a_text_is_found_before_it_is_followed(tmp_path: Path) -> None:
    names = ("chunk_id", "document_id", "section", "content_summary", "text", "structure")
    names += ("path", "file_name", "document_name", "source_uri", "image")
    file = tmp_path / "chunks.arrow"
    ChunkTable.write(file, {name: ["one", "two", "three"] for name in names}, {})
    offsets = np.array([0, 3, 6, 11], dtype="<i8").tobytes()
    wrong = np.array([0, 3, 2**40, 11], dtype="<i8").tobytes()
    file.write_bytes(file.read_bytes().replace(offsets, wrong))
    table = ChunkTable.read(file)
    for read in (
        lambda: table.value("text", 1),
        lambda: table.values("text", [1]),
        lambda: table.chunk_ids,
        lambda: table.document_ids,
    ):
        with pytest.raises(InputError, match=r"chunks\.arrow: damaged"):
            read()


def foreign_notes(folder: Path) -> None:
    (folder / "generation-notes").mkdir(parents=True)
    (folder / "generation-notes" / "mine.txt").write_text("mine")


def foreign_manifest(content: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        folder.mkdir()
        (folder / "manifest.json").write_text(content)
        (folder / "generation-1").mkdir()

    return make


def foreign_file(folder: Path) -> None:
    folder.mkdir()
    (folder / "generation-1").write_text("a file of this name")


@pytest.mark.parametrize(
    "make",
    [
        foreign_notes,
        foreign_file,
        *(
            foreign_manifest(content)
            for content in (
                '{"name": "my web app", "icons": []}',
                "no JSON",
                "[]",
                '{"format": 2, "generation": "../c", "files": {}}',
                '{"format": "x", "generation": "generation-1", "files": {}}',
            )
        ),
    ],
)
def test_folder_of_another_is_refused_and_left_as_it_is(
    made: Path, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "w")
    before = contents(tmp_path / "w")
    with pytest.raises(InputError, match=r"holds other files \(.*\) and no index"):
        build_index(made / "c", tmp_path / "w", GENERAL, encoders=ENCODERS)
    assert contents(tmp_path / "w") == before


def test_file_in_the_place_of_the_folder_is_refused(made: Path, tmp_path: Path) -> None:
    (tmp_path / "w").write_text("mine")
    for out in (tmp_path / "w", tmp_path / "w" / "below"):
        with pytest.raises(InputError, match=r"w(/below)?: "):
            build_index(made / "c", out, GENERAL, encoders=ENCODERS)
    assert (tmp_path / "w").read_text() == "mine"


def test_what_others_put_beside_an_index_stays(made: Path, index: Path) -> None:
    foreign_notes(index)
    (index / "notes.txt").write_text("mine")
    (index / "generation-9").symlink_to(made)
    other = GENERAL.with_overrides({"index.bm25.k1": 0.9})
    assert build_index(made / "c", index, other, encoders=ENCODERS).built
    assert (index / "generation-notes" / "mine.txt").read_text() == "mine"
    assert (index / "notes.txt").exists()
    assert (index / "generation-9").is_symlink()
    assert (made / "c" / "corpus.jsonl").exists()


@pytest.mark.parametrize(
    "manifest",
    [
        '{"format": 1, "generation": "generation-3", "files": {}, "old": true}',
        '{"format": 2, "generation": "generation-3", "files": {}}',
    ],
)
def test_index_of_an_older_format_is_built_anew(made: Path, tmp_path: Path, manifest: str) -> None:
    (tmp_path / "w" / "generation-3").mkdir(parents=True)
    (tmp_path / "w" / "manifest.json").write_text(manifest)
    report = build_index(made / "c", tmp_path / "w", GENERAL, encoders=ENCODERS)
    assert report.index.manifest.generation == "generation-4"
    assert not (tmp_path / "w" / "generation-3").exists()


def test_leftovers_of_a_killed_build_are_built_over(made: Path, tmp_path: Path) -> None:
    (tmp_path / "w" / "generation-1" / "collections").mkdir(parents=True)
    (tmp_path / "w" / ".lock").touch()
    (tmp_path / "w" / ".manifest.json.ab12_xyz").touch()
    build_index(made / "c", tmp_path / "w", GENERAL, encoders=ENCODERS)
    found = {item.name for item in (tmp_path / "w").iterdir()}
    assert found == {".lock", "manifest.json", "generation-1"}


def test_failed_first_build_leaves_no_folder(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text("{")
    (tmp_path / "empty").mkdir()
    for out in ("new", "deep/er/new", "empty"):
        with pytest.raises(InputError):
            build_index(tmp_path / "corpus.jsonl", tmp_path / out, GENERAL, encoders=ENCODERS)
    assert sorted(item.name for item in tmp_path.iterdir()) == ["corpus.jsonl", "empty"]
    assert not list((tmp_path / "empty").iterdir())


def test_nothing_published_leaves_no_generation(index: Path, tmp_path: Path) -> None:
    def leave(path: Path) -> None:
        with building(path):
            return

    before = contents(index)
    leave(index)
    leave(tmp_path / "new")
    assert contents(index) == before
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "name", ["a?b", "a%20b", "with space", "ünï-索引", "c#d&e=f", "x?uri=true"]
)
def test_any_path_holds_an_index(made: Path, tmp_path: Path, name: str) -> None:
    build_index(made / "c", tmp_path / name, GENERAL, encoders=ENCODERS)
    opened = Index.open(tmp_path / name)
    assert opened.registry.count("index") == len(TEXTS)
    opened.verify()
    assert sorted(item.name for item in tmp_path.iterdir()) == [name]


def test_paths_may_be_text(made: Path, tmp_path: Path) -> None:
    out, cache = str(tmp_path / "index"), str(tmp_path / "cache")
    report = build_index(str(made / "c"), out, GENERAL, encoders=ENCODERS, cache=cache)
    assert report.built
    assert Index.open(out).manifest.documents == len(TEXTS)


def test_search_works_after_the_process_changed_its_folder(
    made: Path, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    retriever = Retriever.open("index", GENERAL, encoders=ENCODERS)
    built = build_index(made / "c", "other", GENERAL, encoders=ENCODERS).index
    monkeypatch.chdir("/")
    assert retriever.search("egfr").hits
    assert retriever.index.registry.count("index") == len(TEXTS)
    assert built.registry.count("index") == len(TEXTS)
    built.verify()


@pytest.mark.parametrize("removed", [False, True])
def test_reader_of_a_rebuilt_index_is_told_to_open_it_again(
    made: Path, index: Path, removed: bool
) -> None:
    retriever = Retriever.open(index, GENERAL, encoders=ENCODERS)
    if removed:
        shutil.rmtree(index)
    else:
        other = GENERAL.with_overrides({"index.bm25.k1": 0.9})
        build_index(made / "c", index, other, encoders=ENCODERS)
    for use in (
        lambda: retriever.search("egfr"),
        lambda: retriever.index.chunks,
        lambda: retriever.index.collections["eagle_text"].bm25,
        lambda: retriever.index.collections["eagle_text"].dense,
        lambda: retriever.index.registry.count("index"),
        retriever.index.verify,
    ):
        with pytest.raises(InputError, match=r"rebuilt or removed.*open it again"):
            use()


def test_reading_chunks_imports_no_pandas(index: Path) -> None:
    code = (
        "import sys\n"
        "from retriever import Index\n"
        f"chunks = Index.open({str(index)!r}).chunks\n"
        "chunks.value('text', 0), chunks.values('text', [1, 0]), chunks.chunk_ids\n"
        "chunks.document_of, chunks.rows_of_documents(['d1'])\n"
        "print('pandas' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_manifest_keeps_to_its_own_folder(index: Path) -> None:
    values = json.loads((index / "manifest.json").read_text())
    (index / "manifest.json").write_text(json.dumps({**values, "generation": "../index"}))
    with pytest.raises(InputError, match=r"manifest\.json: damaged"):
        Index.open(index)
