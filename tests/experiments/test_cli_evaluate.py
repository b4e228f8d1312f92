"""`assay evaluate`, from a folder to figures."""

import json
from io import StringIO
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import HashedWords, write_gold

from experiments.evaluate import evaluate, evaluate_run
from experiments.screen import Screen
from experiments.show import print_record
from gold import load, read_run
from retriever import InputError, Retriever, RetrieverConfig, build_index

GENERAL = RetrieverConfig(namespace="general")
DOCUMENTS = {
    "egfr": "Gefitinib blocks the EGFR kinase in lung cancer.",
    "met": "Capmatinib is a MET inhibitor for exon 14 skipping.",
    "il2": "Aldesleukin is recombinant interleukin IL-2.",
    "il6": "Tocilizumab binds the receptor of IL-6.",
    "rules": "Travel must be approved by a manager.",
}
QUERIES = {
    "q1": "which drug blocks EGFR",
    "q2": "IL-6 receptor antibody",
    "q3": "nothing here is relevant",
    "q4": "who approves travel",
}
QRELS = {"q1": {"egfr": 2, "met": 0}, "q2": {"il6": 1}, "q3": {"met": 0}, "q4": {"rules": 1}}
METADATA = {
    "q1": {"type": "mechanism", "expected_terms": ["gefitinib"]},
    "q2": {"type": "mechanism", "expected_terms": ["IL-6", "siltuximab"]},
    "q4": {"type": "general"},
}


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    return write_gold(tmp_path / "gold", DOCUMENTS, QUERIES, QRELS, metadata=METADATA)


def test_evaluation_scores_every_scorable_query(assay, gold: Path, tmp_path: Path) -> None:
    done = assay("evaluate", gold, "-o", tmp_path / "run", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert (found["queries"], found["unanswered"], found["unscorable"]) == (3, 0, 1)
    assert found["metrics"]["hit@5"]["value"] == 1.0
    assert found["metrics"]["hit@5"]["queries"] == 3
    # gefitinib is found; of IL-6 and siltuximab one of two: (1 + .5) / 2
    assert found["metrics"]["coverage@5"]["value"] == pytest.approx(0.75)
    assert found["metrics"]["coverage@5"]["undefined"] == 1
    assert found["by_type"]["mechanism"]["queries"] == 2
    assert sum(part["queries"] for part in found["by_workflow"].values()) == 3
    assert found["mlflow"]["run_id"]
    assert set(found["seconds"]) >= {"encode", "bm25", "dense", "merge", "score"}


def test_run_directory_is_complete_and_agrees_with_trec_eval(
    assay, gold: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert assay("evaluate", gold, "-o", run, "--no-track").code == 0
    assert {p.name for p in run.iterdir()} == {
        "run.json",
        "config.yaml",
        "run.trec",
        "qrels.trec",
        "queries.parquet",
        "candidates.parquet",
        "texts.parquet",
    }
    queries = pq.read_table(run / "queries.parquet").to_pandas().set_index("query_id")
    assert queries.index.tolist() == ["q1", "q2", "q3", "q4"]
    assert queries.loc["q3", "scorable"] is False or not queries.loc["q3", "scorable"]
    assert queries.loc["q1", "gold_rank:final"] == 1
    with (run / "qrels.trec").open() as q, (run / "run.trec").open() as r:
        referee = pytrec_eval.RelevanceEvaluator(
            pytrec_eval.parse_qrel(q), {"ndcg_cut.10", "recip_rank", "success.5", "recall.100"}
        ).evaluate(pytrec_eval.parse_run(r))
    for query_id in ("q1", "q2", "q4"):
        row = queries.loc[query_id]
        assert row["ndcg@10"] == pytest.approx(referee[query_id]["ndcg_cut_10"], abs=1e-9)
        assert row["mrr@10"] == pytest.approx(referee[query_id]["recip_rank"], abs=1e-9)
        assert row["hit@5"] == referee[query_id]["success_5"]
    candidates = pq.read_table(run / "candidates.parquet").to_pandas()
    first = candidates[(candidates.query_id == "q2") & (candidates["rank:merged"] == 1)]
    assert first["document_id"].tolist() == ["il6"]
    assert set(candidates.columns) >= {
        "rank:eagle_text_biomed:dense",
        "score:eagle_text_biomed:bm25",
        "gold",
    }
    record = json.loads((run / "run.json").read_text())
    assert record["config"]["fingerprint"]
    assert record["gold"]["digest"]
    assert record["latency_ms"] is None


def test_query_without_a_judgement_is_counted(assay, gold: Path, tmp_path: Path) -> None:
    with (gold / "queries.jsonl").open("a") as file:
        file.write('{"_id": "q9", "text": "not judged"}\n')
    done = assay("evaluate", gold, "-o", tmp_path / "run", "--no-track")
    assert done.code == 0, done.err
    assert "1 without a judgement in this split, left out" in done.out
    assert json.loads((tmp_path / "run" / "run.json").read_text())["unjudged"] == 1
    done = assay("evaluate", gold, "--run", tmp_path / "run/run.trec", "--no-track", "--json")
    assert json.loads(done.out)["unjudged"] == 1


def test_two_evaluations_give_the_same_bytes(assay, gold: Path, tmp_path: Path) -> None:
    for name in ("one", "other"):
        assert assay("evaluate", gold, "-o", tmp_path / name, "--no-track").code == 0
    for file in sorted(p.name for p in (tmp_path / "one").iterdir() if p.name != "run.json"):
        one, other = ((tmp_path / name / file).read_bytes() for name in ("one", "other"))
        assert one == other, file


def test_table_names_what_was_not_plain(assay, gold: Path, tmp_path: Path) -> None:
    done = assay("evaluate", gold, "-o", tmp_path / "run")
    assert done.code == 0
    assert "unanswered 0 (score 0), unscorable 1" in done.out
    assert "coverage@5: undefined for 1 query," in done.out
    assert f"why: assay diagnose {tmp_path / 'run'}\n" in done.out
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    written = Screen(file=StringIO(), width=160)
    print_record({**record, "classes": {"ok": 3, "ranking_gap": 0}}, written)
    assert "ok 3\n" in written.file.getvalue()  # type: ignore[attr-defined]
    assert "mlflow ui --backend-store-uri sqlite:///" in done.out
    assert "mechanism" in done.out


def test_shown_fingerprint_is_that_of_the_run(assay, gold: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = assay("evaluate", gold, "-o", run, "--set", "merge.method=rrf", "--no-track")
    assert done.code == 0, done.err
    recorded = json.loads((run / "run.json").read_text())["config"]["fingerprint"]
    shown = assay("config", "show", "--set", "merge.method=rrf", "--json")
    assert json.loads(shown.out)["fingerprint"] == recorded
    # The same again replaces it without a word, another configuration does not.
    again = assay("evaluate", gold, "-o", run, "--set", "merge.method=rrf", "--no-track")
    assert "replaces" not in again.err
    other = assay("evaluate", gold, "-o", run, "--no-track", "--json")
    assert f"{run}: replaces a run of another configuration ({recorded})" in other.err
    file = tmp_path / "c.yaml"
    file.write_text("merge: {method: rrf}\n")
    assert recorded[:16] in assay("config", "validate", file).out


def test_named_index_brings_its_own_index_section(assay, gold: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    assert assay("index", gold, "-o", index, "--set", "index.bm25.k1=0.9").code == 0
    done = assay("evaluate", gold, "--index", index, "-o", tmp_path / "run", "--no-track")
    assert done.code == 0, done.err
    assert "k1: 0.9" in (tmp_path / "run" / "config.yaml").read_text()


def test_index_of_another_corpus_is_refused(assay, gold: Path, tmp_path: Path) -> None:
    other = write_gold(tmp_path / "other", {"x": "egfr"}, QUERIES, {"q1": {"x": 1}})
    assert assay("index", other, "-o", tmp_path / "index").code == 0
    done = assay("evaluate", gold, "--index", tmp_path / "index", "-o", tmp_path / "run")
    assert done.code == 2
    assert "holds none of the 4 judged documents" in done.err
    assert not (tmp_path / "run").exists()


def test_latency_is_measured_only_when_asked(assay, gold: Path, tmp_path: Path) -> None:
    done = assay("evaluate", gold, "-o", tmp_path / "r", "--no-track", "--json", "--latency", 4)
    latency = json.loads(done.out)["latency_ms"]
    assert latency["queries"] == 4
    assert set(latency["stages"]["total"]) == {"p50", "p95", "p99"}
    assert latency["stages"]["total"]["p50"] >= latency["stages"]["encode"]["p50"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--split", "dev"], "splits present: test"),
        (["--set", "merge.rrf_j=1"], "did you mean merge.rrf_k"),
        (["--set", "evaluation.metrics=[ndgc@10]"], "ndcg@10"),
        (["--set", "evaluation.metrics=[ndcg@200]"], "evaluation.depth"),
        (["--config", "nowhere.yaml"], "nowhere.yaml"),
        (["--index", "nowhere"], "no index here"),
        (["--run", "nowhere.trec"], "nowhere.trec"),
        (["--repair"], "--run"),
        (["--run", "x", "--latency", "3"], "--latency"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    assay, gold: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    done = assay("evaluate", gold, "-o", tmp_path / "run", *arguments)
    assert done.code == 2
    assert done.out == ""
    (line,) = done.err.strip().splitlines()
    assert line.startswith("assay: ")
    assert message in line
    assert not (tmp_path / "run").exists()


def test_folder_that_is_no_run_is_never_replaced(assay, gold: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    done = assay("evaluate", gold, "-o", tmp_path / "mine", "--no-track")
    assert done.code == 2
    assert "holds other files (thesis.txt)" in done.err
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def trec(rows: list[tuple[str, str, float]]) -> str:
    return "".join(f"{q} Q0 {d} 1 {s} mine\n" for q, d, s in rows)


def test_imported_run_needs_no_index_and_no_model(gold: Path, tmp_path: Path) -> None:
    import subprocess
    import sys

    run = tmp_path / "mine.trec"
    run.write_text(trec([("q1", "egfr", 2.0), ("q1", "met", 1.0), ("q9", "met", 1.0)]))
    code = (
        "import sys\n"
        "from experiments.cli import main\n"
        f"sys.argv = ['assay', 'evaluate', {str(gold)!r}, '--run', {str(run)!r}, '--json',"
        f" '-o', {str(tmp_path / 'out')!r}, '--no-track']\n"
        "try:\n    main()\nexcept SystemExit as done:\n    assert not done.code, done.code\n"
        "heavy = {'torch', 'transformers', 'faiss', 'mlflow'} & set(sys.modules)\n"
        "print(heavy or 'light', file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip() == "light"
    found = json.loads(done.stdout)
    # q1 is right at rank 1; q2 and q4 are not answered and count 0
    assert found["metrics"]["hit@5"]["value"] == pytest.approx(1 / 3)
    assert found["unanswered"] == 2
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["system"]["ignored_queries"] == ["q9"]
    assert found["metrics"]["coverage@5"]["value"] == pytest.approx(0.5)


@pytest.mark.parametrize("setting", ["merge.rrf_k=20", "namespace=general", "merge={rrf_k: 20}"])
def test_imported_run_is_refused_when_a_parameter_of_the_search_is_set(
    assay, gold: Path, tmp_path: Path, setting: str
) -> None:
    run = tmp_path / "mine.trec"
    run.write_text(trec([("q1", "met", 3.0)]))
    scored = ("evaluate", gold, "--run", run, "-o", tmp_path / "out", "--no-track")
    refused = assay(*scored, "--set", setting)
    assert refused.code == 2
    assert f"{setting.partition('=')[0]} has no part in it" in refused.err
    assert not (tmp_path / "out").exists()
    assert assay(*scored, "--set", "evaluation.depth=100").code == 0


def test_imported_run_with_a_document_twice_is_refused_or_repaired(
    assay, gold: Path, tmp_path: Path
) -> None:
    run = tmp_path / "mine.trec"
    run.write_text(trec([("q1", "met", 3.0), ("q1", "egfr", 2.0), ("q1", "met", 1.0)]))
    refused = assay("evaluate", gold, "--run", run, "-o", tmp_path / "out", "--no-track")
    assert refused.code == 2
    assert "mine.trec:3" in refused.err
    assert "1" in refused.err.replace("mine.trec:3", "")
    assert "--repair" in refused.err
    repaired = assay(
        "evaluate", gold, "--run", run, "--repair", "-o", tmp_path / "out", "--no-track", "--json"
    )
    assert json.loads(repaired.out)["fallbacks"]["run_repaired"] == 1


scores = st.sampled_from([0.0, 1.0, 1.00000001, 1.5, -2.0])
runs = st.dictionaries(
    st.sampled_from([*QUERIES, "q7"]),
    st.dictionaries(st.sampled_from([*DOCUMENTS, "unjudged", "é"]), scores, max_size=6),
    max_size=5,
)


@settings(max_examples=40, deadline=None)
@given(answers=runs, style=st.sampled_from(["trec", "json"]))
def test_imported_runs_score_as_trec_eval_does(
    tmp_path_factory: pytest.TempPathFactory, answers: dict[str, dict[str, float]], style: str
) -> None:
    folder = tmp_path_factory.mktemp("run")
    judged = load(write_gold(folder / "gold", DOCUMENTS, QUERIES, QRELS))
    file = folder / "run.txt"
    if style == "json":
        file.write_text(json.dumps(answers))
    else:
        file.write_text(trec([(q, d, s) for q, found in answers.items() for d, s in found.items()]))
    if not any(answers.values()):
        return
    settings_ = RetrieverConfig().evaluation
    found = evaluate_run(judged, read_run(file), settings_, folder / "out", "run.txt").scores
    referee = pytrec_eval.RelevanceEvaluator(
        {q: dict(grades) for q, grades in judged.qrels.items()},
        {"ndcg_cut.10", "map_cut.100", "success.5", "recip_rank"},
    ).evaluate({q: ranked for q, ranked in answers.items() if ranked})
    for row, query_id in enumerate(found.query_ids):
        expected = referee.get(query_id, {})
        for ours, theirs in {
            "ndcg@10": "ndcg_cut_10",
            "map@100": "map_cut_100",
            "hit@5": "success_5",
            "mrr@10": "recip_rank",
        }.items():
            value = found.values[ours][row]
            assert value == pytest.approx(expected.get(theirs, 0.0), abs=1e-9), (query_id, ours)


def test_chunks_collapse_to_documents_before_the_cut(tmp_path: Path) -> None:
    # Document "long" has several chunks on the query; it must count once, at its best place.
    long = "\n\n".join(f"Egfr egfr {w} one two three. " * 6 for w in ("alpha", "beta", "gamma"))
    texts = {"long": long, "short": "egfr alpha"}
    gold = load(write_gold(tmp_path / "gold", texts, {"q": "egfr"}, {"q": {"short": 1}}))
    config = GENERAL.with_overrides({"index.chunk": {"max_tokens": 32, "overlap": 0}})
    encoders = {"eagle_text": HashedWords()}
    report = build_index(tmp_path / "gold", tmp_path / "i", config, encoders=encoders)
    assert report.index.manifest.chunks > 4
    retriever = Retriever.open(report.index, config, encoders=encoders)
    done = evaluate(gold, retriever, tmp_path / "run")
    lines = (tmp_path / "run" / "run.trec").read_text().splitlines()
    assert sorted(line.split()[2] for line in lines) == ["long", "short"]
    assert done.record["metrics"]["hit@5"]["value"] == 1.0


def test_image_of_a_query_reaches_the_retriever(tmp_path: Path) -> None:
    metadata = {"q1": {"image": "images/q.png"}}
    gold_set = write_gold(tmp_path / "gold", DOCUMENTS, QUERIES, QRELS, metadata=metadata)
    encoders = {"eagle_text": HashedWords()}
    index = build_index(gold_set, tmp_path / "i", GENERAL, encoders=encoders).index
    retriever = Retriever.open(index, GENERAL, encoders=encoders)
    with pytest.raises(InputError, match=r"gold/images/q\.png' cannot be read"):
        evaluate(load(gold_set), retriever, tmp_path / "run")
    (gold_set / "images").mkdir()
    (gold_set / "images" / "q.png").write_text("an image")
    done = evaluate(load(gold_set), retriever, tmp_path / "run")
    # No image is indexed, so it could not be used, and the run says so.
    assert done.record["fallbacks"] == {"query_image_unused": 1}


def test_nothing_retrieved_at_all_scores_zero(tmp_path: Path) -> None:
    gold = load(write_gold(tmp_path / "gold", {"a": "egfr"}, {"q": "zzz"}, {"q": {"a": 1}}))
    config = GENERAL.with_overrides({"route.dense_search": False})
    encoders = {"eagle_text": HashedWords()}
    index = build_index(tmp_path / "gold", tmp_path / "i", config, encoders=encoders).index
    done = evaluate(gold, Retriever.open(index, config, encoders=encoders), tmp_path / "run")
    assert done.record["unanswered"] == 1
    values = {name: figure["value"] for name, figure in done.record["metrics"].items()}
    assert values.pop("coverage@5") is None
    assert set(values.values()) == {0.0}


def test_labels_never_reach_the_retriever(tmp_path: Path) -> None:
    runs = []
    for name, types in (("one", ["a", "b"]), ("other", ["chemical", "regulatory"])):
        metadata = {
            q: {"type": types[i % 2], "role": types[1 - i % 2], "workflow": types[0]}
            for i, q in enumerate(QUERIES)
        }
        folder = tmp_path / name
        gold = load(write_gold(folder / "gold", DOCUMENTS, QUERIES, QRELS, metadata=metadata))
        encoders = {"eagle_text": HashedWords()}
        index = build_index(folder / "gold", folder / "i", GENERAL, encoders=encoders).index
        evaluate(gold, Retriever.open(index, GENERAL, encoders=encoders), folder / "run")
        runs.append((folder / "run" / "run.trec").read_bytes())
    assert runs[0] == runs[1]


def test_table_has_no_blank_first_line_and_no_trailing_blanks() -> None:
    figure = {"value": 0.5, "low": 0.1, "high": 0.9, "undefined": 0}
    few = {**figure, "low": None, "high": None}
    record = {
        "gold": {"name": "g", "version": "1", "split": "test"},
        "metrics": {"mrr@10": figure},
        "by_type": {
            "a": {"queries": 2, "metrics": {"mrr@10": few}},
            "b": {"queries": 5, "metrics": {"mrr@10": figure}},
        },
        "queries": 7,
        "unanswered": 0,
        "unscorable": 0,
        "index": None,
        "system": {},
        "fallbacks": {},
        "latency_ms": None,
    }
    console = Screen(width=160, file=StringIO())
    print_record(record, console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[0].startswith("g 1 test")
    assert lines[1].split() == ["type", "queries", "mrr@10"]
    assert all(line == line.rstrip() for line in lines)
    assert "(too few)" in console.file.getvalue()  # type: ignore[attr-defined]
