"""Writing a BEIR directory: it comes back, BEIR reads it, and it is whole or absent."""

from __future__ import annotations

from pathlib import Path

import pytest
from beir.datasets.data_loader import GenericDataLoader
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gold import (
    CorpusDocument,
    GoldQuery,
    InputError,
    Settings,
    load,
    read_corpus,
    read_qrels,
    write_beir,
)

QUERY = GoldQuery(
    "q1", "text\u2028of it", "regulatory", "ra", "w", ("IL-2",), {"tags": ("a", "b")}, "x.png",
    "CCO", True, 3, {"note": [1.5, None, {"β": "ü"}]},
)  # fmt: skip
DOCUMENT = CorpusDocument("d1", "ti\ttle", "te\nxt", {"name": "n"}, line=1)


def test_files_are_these_bytes_when_written(tmp_path: Path) -> None:
    documents, queries = [CorpusDocument("d1", "é", "t")], [GoldQuery("q1", "t")]
    write_beir(
        tmp_path / "s", documents=documents, queries=queries, qrels={"dev": {"q1": {"d1": 2}}}
    )
    written = {p.relative_to(tmp_path).as_posix(): p.read_text() for p in tmp_path.rglob("*.*")}
    assert written == {
        "s/corpus.jsonl": '{"_id": "d1", "title": "é", "text": "t", "metadata": {}}\n',
        "s/queries.jsonl": '{"_id": "q1", "text": "t", "metadata": {}}\n',
        "s/qrels/dev.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t2\n",
    }


def test_everything_comes_back_when_read_again(tmp_path: Path) -> None:
    settings = Settings("n", "1.10", "chunk", "all", 0.5, 2, (5, 9), {0: "no", 2: "yes"}, "CC0")
    write_beir(
        tmp_path / "s",
        documents=[DOCUMENT],
        queries=[QUERY],
        qrels={"test": {"q1": {"d1": 2, "x": -1}}},
        settings=settings,
    )
    gold = load(tmp_path / "s")
    assert list(read_corpus(tmp_path / "s")) == [DOCUMENT]
    assert gold.queries == {"q1": QUERY}
    assert gold.qrels == {"q1": {"d1": 2, "x": -1}}
    assert all(getattr(gold, name) == getattr(settings, name) for name in Settings.__slots__)


IDS = st.text(st.characters(codec="utf-8", exclude_categories=("Z", "C")), min_size=1).map(
    lambda text: f'{text} "#'
) | st.sampled_from(['"', '"a"', '"a', 'a"', "#", " lead", "query-id", "007", "7"])


# BEIR's loader leaves its file open; the fault is its own.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@hypothesis_settings(deadline=None, max_examples=50)  # the disk is shared
@given(
    st.dictionaries(
        IDS, st.dictionaries(IDS, st.integers(-3, 3), min_size=1), min_size=1, max_size=5
    )
)
def test_judgements_come_back_from_us_and_from_beir_when_ids_are_odd(
    tmp_path_factory: pytest.TempPathFactory, qrels: dict[str, dict[str, int]]
) -> None:
    path = tmp_path_factory.mktemp("beir") / "s"
    queries = [GoldQuery(query_id, "t") for query_id in qrels]
    write_beir(path, documents=[DOCUMENT], queries=queries, qrels={"test": qrels})
    assert read_qrels(path / "qrels" / "test.tsv") == qrels
    loader = GenericDataLoader(str(path))
    loader.qrels_file = str(path / "qrels" / "test.tsv")
    loader._load_qrels()
    assert loader.qrels == qrels


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"documents": [DOCUMENT, DOCUMENT]}, "'d1' comes twice for corpus.jsonl"),
        ({"queries": [GoldQuery("a\tb", "t")]}, "holds a tab"),
        ({"queries": [GoldQuery("", "t")]}, "is empty"),
        ({"queries": [GoldQuery("q", "\ud800")]}, "UTF-8"),
        ({"queries": [GoldQuery("q", "t", metadata={"n": float("nan")})]}, "is no JSON"),
        ({"queries": [GoldQuery("q", "t", metadata={"n": object()})]}, "is no JSON"),
        ({"qrels": {"test": {"q": {"d\n": 1}}}}, "holds a line feed"),
        ({"qrels": {"test": {"q": {"d": 0.5}}}}, "is 0.5"),
        ({"qrels": {"../test": {"q": {"d": 1}}}}, "cannot be the name of a split"),
    ],
)
def test_nothing_is_left_behind_when_something_is_unfit(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    content = {"documents": [DOCUMENT], "queries": [QUERY], "qrels": {"test": {"q1": {"d1": 1}}}}
    with pytest.raises(InputError, match=message):
        write_beir(tmp_path / "s", **(content | change))  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_folder_is_left_alone_when_it_holds_something(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    with pytest.raises(InputError, match="holds something already"):
        write_beir(tmp_path, documents=[], queries=[], qrels={})
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
