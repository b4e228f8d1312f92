"""Linking figures worked out by hand, and the command line of linking and lexicons."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from worlds import write_gold

from experiments.linking import score_links
from gold import validate
from retriever.biomed.linking import Candidate, Linked

ROOT = Path(__file__).resolve().parents[2]


def answer(entity: str | None, *candidates: str) -> Linked:
    found = tuple(Candidate(c, c, c, "bm25", 0.5) for c in candidates)
    return Linked("x", entity, found)


GOLD = {"a": "E1", "b": "E1", "c": "E2", "d": "E3", "e": None, "f": None}
LINKED = {
    "a": answer("E1", "E1", "E2"),  # right
    "b": answer("E2", "E2", "E1"),  # wrong; the concept is second
    "c": answer(None, "E2"),  # taken for NIL although its concept is first
    "d": answer(None),  # no candidate
    "e": answer(None, "E1"),  # NIL, right
    "f": answer("E1", "E1"),  # linked although nothing is meant
}


def test_figures_are_these() -> None:
    scores = score_links(GOLD, LINKED)
    mean = {name: float(np.nanmean(column)) for name, column in scores.values.items()}
    assert mean["accuracy"] == 2 / 6  # a, e
    assert mean["accuracy_linkable"] == 1 / 4  # a of a, b, c, d
    assert mean["accuracy_nil"] == 1 / 2  # e of e, f
    assert mean["recall@1"] == 2 / 4  # a, c
    assert mean["recall@5"] == mean["recall@50"] == 3 / 4  # a, b, c
    assert mean["mrr"] == pytest.approx((1 + 1 / 2 + 1 + 0) / 4)
    assert scores.unanswered == ("d",)


def test_figures_are_undefined_where_they_mean_nothing() -> None:
    nil = score_links({"e": None}, {"e": answer(None)})
    assert np.isnan(nil.values["recall@1"]).all()
    assert nil.values["accuracy_nil"].tolist() == [1.0]


LEXICON = [
    {"id": "mi", "name": "myocardial infarction", "aliases": ["heart attack"]},
    {"id": "asp", "name": "aspirin", "is_drug": True},
]
MENTIONS = [
    {"_id": "1", "mention": "heart attacks", "entity": "mi", "metadata": {"type": "plural"}},
    {"_id": "2", "mention": "asprin", "entity": "asp", "metadata": {"type": "typo"}},
    {"_id": "3", "mention": "gout", "entity": None, "metadata": {"type": "nil"}},
    {"_id": "4", "mention": "gout", "entity": "gone", "metadata": {"type": "lost"}},
]


@pytest.fixture
def lexicon(tmp_path: Path) -> Path:
    (tmp_path / "lex.json").write_text(json.dumps(LEXICON), "utf-8")
    return tmp_path / "lex.json"


@pytest.fixture
def linking(tmp_path: Path) -> Path:
    folder = tmp_path / "linking"
    folder.mkdir()
    lines = "\n".join(map(json.dumps, MENTIONS))
    (folder / "mentions.jsonl").write_text(lines, "utf-8")
    return folder


def test_evaluate_scores_a_linking_set(
    assay: Any, linking: Path, lexicon: Path, tmp_path: Path
) -> None:
    import pyarrow.parquet as pq

    out = tmp_path / "run"
    path = f"plugins.biomed.lexicon.path={lexicon}"
    done = assay("evaluate", linking, "--set", path, "-o", out, "--no-track", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert (found["queries"], found["unanswered"]) == (4, 1)
    assert found["metrics"]["accuracy"]["value"] == 0.75
    assert found["metrics"]["accuracy_nil"] == {
        "value": 1.0,
        "low": pytest.approx(0.2065, abs=1e-4),  # Wilson, 1 of 1: 1 / (1 + 1.96²)
        "high": 1.0,
        "queries": 1,
        "undefined": 3,
    }
    assert found["by_type"]["typo"]["metrics"]["recall@1"]["value"] == 1.0
    assert found["fallbacks"] == {"gold_entity_not_in_lexicon": 1}
    assert sorted(file.name for file in out.iterdir()) == [
        "config.yaml",
        "qrels.trec",
        "queries.parquet",
        "run.json",
        "run.trec",
    ]
    rows = pq.read_table(out / "queries.parquet").to_pylist()
    assert [(r["linked"], r["way"]) for r in rows] == [
        ("mi", "variant"),
        ("asp", "one_edit"),
        (None, None),
        (None, None),
    ]
    assert json.loads((out / "run.json").read_text())["kind"] == "linking"
    assert (out / "run.trec").read_text().splitlines()[2].split()[:4] == [
        "3",
        "Q0",
        "name:NIL",
        "1",
    ]


def test_evaluate_refuses_what_linking_has_no_part_in(assay: Any, linking: Path) -> None:
    done = assay("evaluate", linking, "--latency", "3", "--no-track")
    assert done.code == 2
    assert "a linking gold set needs no --index" in done.err


def test_linking_run_is_tracked(assay: Any, linking: Path, lexicon: Path) -> None:
    path = f"plugins.biomed.lexicon.path={lexicon}"
    done = assay("evaluate", linking, "--set", path, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["mlflow"]["run_id"]


def test_linking_runs_are_compared_and_shown_on_a_page(
    assay: Any, linking: Path, lexicon: Path, tmp_path: Path
) -> None:
    path = f"plugins.biomed.lexicon.path={lexicon}"
    for name, nil_below in (("one", 0.7), ("other", 0.95)):
        threshold = f"plugins.biomed.linking.nil_below={nil_below}"
        arguments = ("--set", path, "--set", threshold, "-o", tmp_path / name, "--no-track")
        assert assay("evaluate", linking, *arguments).code == 0
    done = assay("compare", tmp_path / "one", tmp_path / "other", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)["metrics"]
    # "asprin" is one slip from "aspirin", 1 - 1/7 = .857: below .95 it is taken for NIL.
    assert (found["accuracy"]["wins"], found["accuracy"]["losses"]) == (0, 1)
    assert found["recall@1"]["difference"] == 0
    page = assay("dashboard", tmp_path / "one", tmp_path / "other", "-o", tmp_path / "page.html")
    assert page.code == 0, page.err


def test_measure_of_linking_is_refused_for_a_retriever(assay: Any, tmp_path: Path) -> None:
    gold = write_gold(tmp_path / "g", {"a": "x"}, {"q": "x"}, {"q": {"a": 1}})
    (tmp_path / "r.trec").write_text("q Q0 a 1 1.0 mine\n")
    measures = 'evaluation.metrics=["accuracy"]'
    done = assay("evaluate", gold, "--run", tmp_path / "r.trec", "--set", measures, "--no-track")
    assert done.code == 2
    assert "a measure of entity linking alone" in done.err


def test_bundled_linking_set_is_what_evaluate_takes(assay: Any) -> None:
    folder = ROOT / "gold" / "linking"
    done = assay("evaluate", folder, "--no-track", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["queries"] == validate(folder).counts["mentions"]
    assert found["fallbacks"] == {}
    assert found["metrics"]["accuracy"]["value"] > 0.8
    assert found["metrics"]["recall@50"]["value"] > 0.9


# ------------------------------------------------------------------------------------ assay link


def test_link_prints_candidates_as_json(assay: Any, lexicon: Path) -> None:
    done = assay("link", "infarction of the myocardium", "--lexicon", lexicon, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert set(found) == {"lexicon", "mentions"}
    (mention,) = found["mentions"]
    assert (mention["mention"], mention["entity"]) == ("infarction of the myocardium", "mi")
    assert mention["candidates"] == [
        {
            "rank": 1,
            "entity_id": "mi",
            "name": "myocardial infarction",
            "term": "myocardial infarction",
            "way": "variant",
            "similarity": 1.0,
            "bm25": None,
            "logit": None,
        }
    ]


def test_link_reads_files_of_both_kinds(assay: Any, lexicon: Path, tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text("asprin\n\n gout \n", "utf-8")
    context = {"mention": "HA", "context": "a heart attack (HA)"}
    (tmp_path / "m.jsonl").write_text(json.dumps(context) + "\n", "utf-8")
    for name, entities in (("m.txt", ["asp", None]), ("m.jsonl", ["mi"])):
        done = assay("link", "--file", tmp_path / name, "--lexicon", lexicon, "--json")
        assert [m["entity"] for m in json.loads(done.out)["mentions"]] == entities
    plain = assay("link", "-f", tmp_path / "m.txt", "--lexicon", lexicon)
    assert "asprin: asp" in plain.out
    assert "gout: NIL" in plain.out


def test_json_lines_are_refused_when_the_file_says_plain_text(
    assay: Any, lexicon: Path, tmp_path: Path
) -> None:
    file = tmp_path / "m.txt"
    file.write_text('aspirin\n\n{"mention": "HA", "context": "a heart attack"}\n', "utf-8")
    done = assay("link", "-f", file, "--lexicon", lexicon)
    assert done.code == 2
    assert f"{file}:3: a JSON object in a file of plain mentions" in done.err
    assert "m.jsonl" in done.err
    file.write_text("{aspirin}\n[1]\n", "utf-8")
    assert assay("link", "-f", file, "--lexicon", lexicon).code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["link"], "one mention, or a file"),
        (["link", "x", "--file", "y"], "one mention, or a file"),
        (["link", " "], "a mention is blank"),
        (["link", "--file", "none.txt"], "none.txt"),
        (
            ["link", "x", "--set", "plugins.biomed.linking.cross_encoder=general"],
            "no cross-encoder",
        ),
        (["link", "x", "--lexicon", "none.json"], "cannot be read"),
        (["lexicon", "build", "-o", "x.json"], "one source"),
        (["lexicon", "build", "-o", "x.json", "--umls", "none"], "no such file"),
        (["lexicon", "build", "-o", "x.json", "--corpus", "none", "--drugs"], "--from-names"),
        (["lexicon", "build", "-o", "x.txt", "--from-names", "README.md"], "end the name in .json"),
        (["lexicon", "prune", "none.json", "--sample", "none", "-o", "x.json"], "cannot be read"),
        (["lexicon", "show", "x", "--overlay", "none.json"], "cannot be read"),
    ],
)
def test_misuse_is_one_line_and_exit_code_2(
    assay: Any, arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    done = assay(*arguments)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert message in line
    assert not (ROOT / "x.json").exists()


# --------------------------------------------------------------------------------- assay lexicon


def test_lexicon_is_built_pruned_counted_and_shown(assay: Any, tmp_path: Path) -> None:
    names, lex, kept = tmp_path / "names.txt", tmp_path / "lex.json", tmp_path / "kept.json"
    names.write_text("aspirin\tASA\nlead\nx\n", "utf-8")
    built = assay(
        "lexicon", "build", "--from-names", names, "--drugs", "--shortest", 2, "-o", lex, "--json"
    )
    found = json.loads(built.out)
    assert (found["entities"], found["terms"], found["drugs"]) == (2, 3, 2)
    assert found["skipped"] == {"shorter than 2 characters": 1}

    sample = tmp_path / "s.jsonl"
    mention = {"start": 0, "end": 7}
    sample.write_text(
        json.dumps({"text": "aspirin may lead to", "mentions": [mention]})
        + "\n"
        + json.dumps({"text": "they lead", "mentions": []})
    )
    pruned = assay("lexicon", "prune", lex, "--sample", sample, "-o", kept, "--json")
    found = json.loads(pruned.out)
    assert found["dropped"] == [
        {
            "term": "lead",
            "entities": ["term:lead"],
            "occurrences": 2,
            "correct": 0,
            "precision": 0.0,
        }
    ]
    assert (found["before"]["entities"], found["after"]["entities"]) == (2, 1)
    assert found["removed"] == ["term:lead"]
    said = assay("lexicon", "prune", lex, "--sample", sample, "-o", kept).out
    assert "dropped 'lead': 0 of 2 right (term:lead)" in said

    assert json.loads(assay("lexicon", "stats", "--lexicon", kept, "--json").out)["terms"] == 2
    shown = json.loads(assay("lexicon", "show", "ASA", "--lexicon", kept, "--json").out)
    assert [record["name"] for record in shown["records"]] == ["aspirin"]
    by_id = assay("lexicon", "show", "term:aspirin", "--lexicon", kept)
    assert (by_id.code, "name: aspirin" in by_id.out) == (0, True)
    assert assay("lexicon", "show", "lead", "--lexicon", kept).code == 1


def test_lexicon_is_built_from_umls_and_from_a_corpus(assay: Any, tmp_path: Path) -> None:
    row = "C1|ENG|P|L|PF|S|Y|A||||MSH|MH|D1|Leukemia|0|N||\n"
    (tmp_path / "MRCONSO.RRF").write_text(row * 1)
    (tmp_path / "MRSTY.RRF").write_text("C1|T191|A|Neoplastic Process|AT||\n")
    out = tmp_path / "u.json"
    done = assay("lexicon", "build", "--umls", tmp_path, "--types", "T191", "--variants", "-o", out)
    assert done.code == 0, done.err
    (record,) = json.loads(out.read_text("utf-8"))
    assert "leukaemia" in record["aliases"]
    assert record["semantic_types"] == ["Neoplastic Process"]

    smoke = ROOT / "gold" / "smoke"
    done = assay("lexicon", "build", "--corpus", smoke, "-o", tmp_path / "c.json", "--json")
    assert json.loads(done.out)["entities"] > 50
