"""The registry's contract, run on SQLite and on a real PostgreSQL server."""

import itertools
import signal
import sqlite3
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from retriever.files import InputError
from retriever.registry import DocumentRecord, Registry, Scope, ScopeResult, fold_name, sqlite_url

MakeURL = Callable[[], str]


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def make_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> MakeURL:
    """Return a function that gives the URL of a new, empty database."""
    if request.param == "sqlite":
        return lambda: f"sqlite:///{tmp_path_factory.mktemp('registry') / 'registry.sqlite'}"
    psycopg = pytest.importorskip("psycopg")
    server: str = request.getfixturevalue("postgres")
    numbers = itertools.count()

    def create() -> str:
        # A schema takes a millisecond, a database of its own a tenth of a second.
        schema = f"registry{next(numbers)}"
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {schema}")
        return f"{server}&options=-csearch_path%3D{schema}"

    return create


@pytest.fixture
def registry(make_url: MakeURL) -> Iterator[Registry]:
    with Registry.open(make_url()) as opened:
        yield opened


@pytest.fixture(scope="session")
def lasting_registry(make_url: MakeURL) -> Iterator[Registry]:
    """One registry for all examples of a property; each replaces what the last one left."""
    with Registry.open(make_url()) as opened:
        yield opened


def record(document_id: str, name: str = "", **fields: object) -> DocumentRecord:
    return DocumentRecord(document_id, name or document_id, **fields)  # type: ignore[arg-type]


def test_get_returns_records_unchanged_in_the_order_asked(registry: Registry) -> None:
    full = DocumentRecord(
        document_id="β/💊",
        name="Tagrisso 80 mg – label",
        file_name="tagrisso.pdf",
        title="TAGRISSO® (osimertinib)",
        path="labels/tagrisso.pdf",
        source_uri="https://example.org/?a=1&b=%20",
        kb_name="labels",
        tags=("egfr", "lung"),
        collections=("eagle_text", "eagle_text_biomed"),
        namespace="biomed",
        domain="biomedical",
        tier=1,
        rule="fused",
        confidence=0.1 + 0.2,
        signals={"prototype": 1 / 3, "entropy": 5e-324},
    )
    assert registry.replace("one", [record("a"), full]) == 2
    found = registry.get("one", ["β/💊", "missing", "a"])
    assert list(found.items()) == [("β/💊", full), ("a", record("a"))]


def test_record_holds_sets_when_tags_repeat() -> None:
    one = record("a", tags=("b", "a", "b"), collections=("y", "x"))
    assert (one.tags, one.collections) == (("a", "b"), ("x", "y"))
    assert hash(one) == hash(record("a", tags=("a", "b"), collections=("x", "y")))


def test_indexes_do_not_see_each_other(registry: Registry) -> None:
    a, b = record("a", kb_name="k"), record("b", kb_name="k")
    registry.replace("one", [replace(a, tags=("t",), collections=("c1",)), b])
    registry.replace("two", [a, replace(b, tags=("t",), collections=("c2",))])
    registry.replace("two", [replace(b, name="new", tags=("t",), collections=("c3",)), a])
    assert [registry.count(index_id) for index_id in ("one", "two", "three")] == [2, 2, 0]
    assert registry.get("two", ["a", "b"])["b"].collections == ("c3",)
    assert registry.find_by_name("one", ["new"]) == {"new": ()}
    assert registry.scope("one", Scope(tags=("t",))) == ScopeResult(("a",), ("c1",))
    assert registry.scope("two", Scope(kb_names=("k",))) == ScopeResult(("a", "b"), ("c3",))
    assert registry.remove("one") == 2
    assert [registry.count(index_id) for index_id in ("one", "two")] == [0, 2]
    assert registry.scope("one", Scope()) == ScopeResult((), ())


def test_replace_leaves_the_old_rows_when_a_later_record_fails(registry: Registry) -> None:
    registry.replace("one", [record("old", tags=("t",))])

    def broken() -> Iterator[DocumentRecord]:
        # More than one statement's worth, so that rows are in the database when it fails.
        yield from (record(f"new{i}") for i in range(5_000))
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        registry.replace("one", broken())
    with pytest.raises(InputError, match="document 'x' comes twice"):
        registry.replace("one", [record("x"), record("x", name="other")])
    assert registry.count("one") == 1
    assert registry.scope("one", Scope(tags=("t",))).document_ids == ("old",)


def test_readers_see_the_old_rows_when_a_replace_is_under_way(make_url: MakeURL) -> None:
    url = make_url()
    seen: list[int] = []
    with Registry.open(url) as writer, Registry.open(url) as reader:
        writer.replace("one", [record("old")])

        def records() -> Iterator[DocumentRecord]:
            yield from (record(f"new{i}") for i in range(3_000))
            seen.append(reader.count("one"))

        writer.replace("one", records())
        assert (seen, reader.count("one")) == ([1], 3_000)


KILLED = """
import os, signal, sys
from retriever.registry import DocumentRecord, Registry
def records():
    for i in range(5_000):
        yield DocumentRecord(f"new{i}", "new", tags=("t",))
    os.kill(os.getpid(), signal.SIGKILL)
Registry.open(sys.argv[1]).replace("one", records())
"""


def test_old_rows_stay_when_replace_is_killed(make_url: MakeURL) -> None:
    url = make_url()
    with Registry.open(url) as registry:
        registry.replace("one", [record("old")])
        killed = subprocess.run([sys.executable, "-c", KILLED, url], check=False)
        assert killed.returncode == -signal.SIGKILL
        assert registry.scope("one", Scope()).document_ids == ("old",)
        assert registry.replace("one", [record("after")]) == 1


STARTED_TOGETHER = """
import sys, time
from pathlib import Path
from retriever.registry import DocumentRecord, Registry
url, index_id, folder = sys.argv[1:]
Path(folder, index_id).touch()
while len(list(Path(folder).iterdir())) < 3:
    time.sleep(0.001)
Registry.open(url).replace(index_id, [DocumentRecord(f"{i}", "n") for i in range(500)])
"""


def test_every_writer_succeeds_when_several_make_the_tables_at_once(
    make_url: MakeURL, tmp_path: Path
) -> None:
    url = make_url()
    command = [sys.executable, "-c", STARTED_TOGETHER, url]
    writers = [
        subprocess.Popen([*command, index_id, str(tmp_path)], stderr=subprocess.PIPE, text=True)
        for index_id in ("one", "two", "three")
    ]
    errors = [writer.communicate(timeout=60)[1] for writer in writers]
    assert errors == ["", "", ""]
    with Registry.open(url) as registry:
        assert [registry.count(index_id) for index_id in ("one", "two", "three")] == [500] * 3


def test_names_match_literally_when_they_hold_wildcards(registry: Registry) -> None:
    names = {"1": "100% pure", "2": "100 x pure", "3": "a_b", "4": "aXb", "5": r"c:\d", "6": "c:/d"}
    registry.replace("one", [record(key, name) for key, name in names.items()])
    assert registry.find_by_name("one", ["0%", "A_B", "\\", "/", "%", "'", ""]) == {
        "0%": ("1",),
        "A_B": ("3",),
        "\\": ("5",),
        "/": ("6",),
        "%": ("1",),
        "'": (),
        "": ("1", "2", "3", "4", "5", "6"),
    }


def test_names_match_when_case_or_composition_differs(registry: Registry) -> None:
    names = {"1": "STRASSE", "2": "Straße", "3": "CAFE\u0301 Zürich", "4": "ΤΓΦ-ΒΣ", "5": "cafe"}
    registry.replace("one", [record(key, name) for key, name in names.items()])
    assert registry.find_by_name("one", ["straße", "caf\u00e9", "ZU\u0308RICH", "τγφ-βς"]) == {
        "straße": ("1", "2"),
        "caf\u00e9": ("3",),
        "ZU\u0308RICH": ("3",),
        "τγφ-βς": ("4",),
    }


def test_ids_come_in_code_point_order_when_a_locale_would_differ(registry: Registry) -> None:
    ids = ["b", "B", "a-1", "a 2", "é", "\U0001f48a", "\uffee", "_", "10", "9"]
    registry.replace("one", [record(key, "x", collections=(key,)) for key in ids])
    # U+0020 < - < 1 < 9 < B < _ < a < b < é (E9) < U+FFEE < U+1F48A, which UTF-16 puts before.
    ordered = ("10", "9", "B", "_", "a 2", "a-1", "b", "é", "\uffee", "\U0001f48a")
    assert registry.find_by_name("one", ["X"])["X"] == ordered
    result = registry.scope("one", Scope())
    assert (result.document_ids, result.collections) == (ordered, ordered)


TEXTS = st.text(
    st.one_of(
        st.sampled_from("%_\\/'\"[]*?aAbBßẞİıſKÅé\u0301\u0345Σσς ½ǆ"),
        st.characters(codec="utf-8", exclude_characters="\0"),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(names=st.lists(TEXTS, min_size=1, max_size=8), sought=st.lists(TEXTS, max_size=4))
def test_find_by_name_equals_a_plain_filter(
    lasting_registry: Registry, names: list[str], sought: list[str]
) -> None:
    def plain(text: str) -> str:
        decomposed = unicodedata.normalize("NFD", text)
        return unicodedata.normalize("NFC", decomposed.casefold())

    # Parts of the names, so that many look-ups find something.
    sought += [name[1:4] for name in names] + [name.upper()[:2] for name in names]
    lasting_registry.replace("p", [record(f"{i}", name or " ") for i, name in enumerate(names)])
    expected = {
        text: tuple(f"{i}" for i, name in enumerate(names) if plain(text) in plain(name or " "))
        for text in sought
    }
    assert lasting_registry.find_by_name("p", sought) == expected


@given(text=st.text(st.characters(codec="utf-8")))
@example(text="\u03b1\u0345\u0300")  # Case folding makes a letter of the first accent.
def test_fold_name_is_stable_when_the_form_changes(text: str) -> None:
    folded = fold_name(text)
    assert folded == fold_name(folded)
    for form in ("NFC", "NFD"):
        assert fold_name(unicodedata.normalize(form, text)) == folded


def test_thousands_of_ids_and_names_work(registry: Registry) -> None:
    ids = [f"d{i:05d}" for i in range(40_000)]
    registry.replace("one", [record(key, tags=(key,), kb_name=key) for key in ids[:3_000]])
    assert len(registry.get("one", ids)) == 3_000
    many = tuple(reversed(ids))
    result = registry.scope("one", Scope(kb_names=many, document_ids=many, tags=many))
    assert result.document_ids == tuple(ids[:3_000])
    registry.replace("two", [record(key) for key in ids[:20]])
    found = registry.find_by_name("two", ids[:2_000])
    assert sum(len(hits) for hits in found.values()) == 20


@pytest.fixture
def scoped(registry: Registry) -> Registry:
    documents = [
        record("a", kb_name="labels", tags=("egfr", "lung"), collections=("biomed", "medcpt")),
        record("b", kb_name="labels", tags=("met",), collections=("biomed",)),
        record("c", kb_name="trials", tags=("egfr",), collections=("general",)),
        record("d", kb_name="notes", collections=("chemical",)),
    ]
    registry.replace("one", documents)
    return registry


@pytest.mark.parametrize(
    ("scope", "documents", "collections"),
    [
        (Scope(), "abcd", ("biomed", "chemical", "general", "medcpt")),
        (Scope(tags=("egfr", "met")), "abc", ("biomed", "general", "medcpt")),
        (Scope(kb_names=("labels", "notes")), "abd", ("biomed", "chemical", "medcpt")),
        (Scope(kb_names=("labels",), tags=("egfr",)), "a", ("biomed", "medcpt")),
        (Scope(document_ids=("b", "c", "z"), tags=("met", "lung")), "b", ("biomed",)),
        (Scope(kb_names=("notes",), tags=("egfr",)), "", ()),
        (Scope(tags=("EGFR",)), "", ()),
    ],
)
def test_scope_is_or_within_a_kind_and_and_across(
    scoped: Registry, scope: Scope, documents: str, collections: tuple[str, ...]
) -> None:
    result = scoped.scope("one", scope)
    assert (result.document_ids, result.collections) == (tuple(documents), collections)


def test_scope_is_empty_only_when_no_kind_restricts() -> None:
    assert Scope().is_empty
    restricted = [Scope(kb_names=("k",)), Scope(document_ids=("d",)), Scope(tags=("t",))]
    assert not any(scope.is_empty for scope in restricted)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"title": "a\0b"}, r"document 'd': title has a NUL character at 1"),
        ({"path": "x\ud800"}, r"document 'd': path has a lone surrogate at 1"),
        ({"signals": {"\0": 1.0}}, "NUL character at 0"),
        ({"signals": {"entropy": float("nan")}}, "document 'd': entropy is nan"),
        ({"confidence": float("inf")}, "document 'd': confidence is inf"),
    ],
)
def test_replace_refuses_what_a_database_cannot_keep(
    registry: Registry, fields: dict[str, object], message: str
) -> None:
    registry.replace("one", [record("old")])
    with pytest.raises(InputError, match=message):
        registry.replace("one", [record("d", **fields)])
    assert registry.count("one") == 1


def test_records_and_lookups_refuse_bad_text(registry: Registry) -> None:
    registry.replace("one", [record("a")])
    with pytest.raises(InputError, match="tags of document 'a' has a NUL"):
        record("a", tags=("\0",))
    with pytest.raises(InputError, match="tags of document 'a' is the text 'egfr'"):
        record("a", tags="egfr")
    with pytest.raises(InputError, match="names has a NUL"):
        registry.find_by_name("one", ["a\0"])
    with pytest.raises(InputError, match="document_ids has a lone surrogate"):
        registry.get("one", ["\udfff"])
    with pytest.raises(InputError, match="kb_names is the text 'labels'"):
        registry.scope("one", Scope(kb_names="labels"))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the index id has a NUL"):
        registry.count("\0")


def test_reading_names_the_fix_when_no_index_was_built(registry: Registry) -> None:
    for read in (lambda: registry.count("one"), lambda: registry.remove("one")):
        with pytest.raises(InputError, match=r"no (such )?registry \(build the index first\)"):
            read()


def test_reading_makes_no_file_when_there_is_none(tmp_path: Path) -> None:
    file = tmp_path / "absent.sqlite"
    with Registry.open(f"sqlite:///{file}") as registry, pytest.raises(InputError) as caught:
        registry.get("one", ["a"])
    assert str(file) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_error_names_the_file_when_it_is_no_database(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a database, " * 100)
    with Registry.open(f"sqlite:///{file}") as registry:
        for use in (lambda: registry.count("one"), lambda: registry.replace("one", [])):
            with pytest.raises(InputError, match=r"notes\.txt: .*not a database"):
                use()
    assert file.read_text() == "not a database, " * 100


def test_error_hides_the_password_when_the_server_is_unreachable(tmp_path: Path) -> None:
    url = f"postgresql://me:secret@/db?host={tmp_path}"
    with Registry.open(url) as registry, pytest.raises(InputError) as caught:
        registry.count("one")
    assert "secret" not in str(caught.value)
    assert "me:***@" in str(caught.value)


@pytest.mark.parametrize(
    "url", ["registry.sqlite", "mysql://me:secret@host/db", "", "postgres://me:secret@host/db"]
)
def test_open_names_the_two_forms_when_the_url_is_neither(url: str) -> None:
    with pytest.raises(InputError, match="sqlite:///PATH or postgresql://") as caught:
        Registry.open(url)
    assert "secret" not in str(caught.value)


def test_open_hides_the_url_when_its_port_is_no_number() -> None:
    with pytest.raises(InputError) as caught:
        Registry.open("postgresql://me:secret@host:port/db")
    assert "secret" not in str(caught.value)


def test_replace_makes_the_folder_when_it_is_missing(tmp_path: Path) -> None:
    with Registry.open(f"sqlite:///{tmp_path / 'deep' / 'registry.sqlite'}") as registry:
        assert registry.replace("one", []) == 0
        assert registry.count("one") == 0
    assert [file.name for file in (tmp_path / "deep").iterdir()] == ["registry.sqlite"]


def test_closed_registry_opens_again_when_used(registry: Registry) -> None:
    registry.replace("one", [record("a")])
    registry.close()
    assert registry.count("one") == 1


def test_path_of_any_characters_is_one_file(tmp_path: Path) -> None:
    file = tmp_path / "a?b%20c #ü.sqlite"
    with Registry.open(sqlite_url(file)) as registry:
        registry.replace("one", [record("a")])
        assert registry.count("one") == 1
    assert list(tmp_path.iterdir()) == [file]


def test_relative_path_stays_when_the_process_changes_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    with Registry.open("sqlite:///registry.sqlite") as registry:
        monkeypatch.chdir(tmp_path / "other")
        registry.replace("one", [record("a")])
        assert registry.count("one") == 1
    assert (tmp_path / "registry.sqlite").exists()


def test_missing_file_names_the_remedy_it_was_given(tmp_path: Path) -> None:
    registry = Registry.open(sqlite_url(tmp_path / "absent.sqlite"), missing="open it again")
    with pytest.raises(InputError, match=r"no such registry \(open it again\)"):
        registry.count("one")


def test_damaged_row_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "registry.sqlite"
    with Registry.open(sqlite_url(file)) as registry:
        registry.replace("one", [record("a", signals={"x": 1.0})])
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("UPDATE documents SET signals = '{'")
        with pytest.raises(InputError, match=r"damaged: .*\(build the index anew\)"):
            registry.get("one", ["a"])
