"""`assay compare`, `power`, `promote` and `leaderboard`, as a user types them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from worlds import SMALL_QUERIES, write_gold, write_small_gold

GENERAL = ["--set", "namespace=general"]


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    return write_small_gold(tmp_path / "gold")


def evaluated(assay, gold: Path, name: str, *more: object) -> Path:
    out = gold.parent / name
    done = assay("evaluate", gold, "-o", out, "--no-track", *GENERAL, *more)
    assert done.code == 0, done.err
    return out


def test_comparison_is_written_and_printed(assay, gold: Path, tmp_path: Path) -> None:
    one = evaluated(assay, gold, "one")
    other = evaluated(assay, gold, "other", "--set", "route.dense_search=false")
    out = tmp_path / "c"
    gate = tmp_path / "gate.yaml"
    gate.write_text("rules: [{rule: at_least, metric: hit@5, value: 0.1}]")
    done = assay("compare", one, other, "-o", out, "--gate", gate, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert set(found) >= {"metrics", "by_type", "flow", "smallest_detectable", "gate"}
    assert set(found["metrics"]["ndcg@10"]) >= {
        "baseline", "candidate", "difference", "low", "high", "p_value", "p_adjusted",
        "effect_size", "wins", "ties", "losses",
    }  # fmt: skip
    assert found["gate"]["passed"] is True
    assert found["others"] == []
    assert found["differences"]["config"]["route.dense_search"] == {
        "baseline": True,
        "candidate": False,
    }
    assert {p.name for p in out.iterdir()} == {
        "comparison.json", "comparison.html", "comparison.md", "junit.xml",
    }  # fmt: skip
    written = json.loads((out / "comparison.json").read_text())
    assert written["comparisons"][0]["metrics"] == found["metrics"]
    gate.write_text("rules: [{rule: at_least, metric: hit@5, value: 1.0}, {rule: no_fallbacks}]")
    weak = evaluated(
        assay, gold, "weak", "--set", "route.bm25_search=false", "--set", "evaluation.depth=100"
    )
    broken = assay("compare", one, weak, "-o", out, "--gate", gate, "--no-why")
    verdict = json.loads((out / "comparison.json").read_text())["comparisons"][0]["gate"]["passed"]
    assert broken.code == (0 if verdict else 1)
    assert "gate" in broken.out


def test_change_cannot_loosen_its_gate_by_another_cutoff(assay, gold: Path, tmp_path: Path) -> None:
    one = evaluated(assay, gold, "one")
    config = tmp_path / "evade.yaml"
    config.write_text("namespace: general\nevaluation: {cutoff: 50}\n")
    done = assay("compare", one, config, "-o", tmp_path / "c")
    assert done.code == 2
    assert "evaluation.cutoff differs" in done.err
    assert not (tmp_path / "c").exists()


def test_configuration_and_run_file_are_run_now(assay, gold: Path, tmp_path: Path) -> None:
    one = evaluated(assay, gold, "one")
    config = tmp_path / "my.yaml"
    config.write_text("namespace: general\nmerge: {method: rrf}\n")
    run = tmp_path / "mine.trec"
    run.write_text("q1 Q0 d0 1 2.0 mine\nq2 Q0 d1 1 2.0 mine\n")
    done = assay("compare", one, config, run, "-o", tmp_path / "c", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["differences"]["config"]["merge.method"]["candidate"] == "rrf"
    assert (
        found["candidate"]["index"]
        == json.loads((one / "run.json").read_text())["index"]["fingerprint"]
    )
    assert found["causes"]["losses"]["not_reproduced"] == 0
    (second,) = found["others"]
    assert second["candidate"]["kind"] == "imported"
    assert "no configuration" in second["causes"]["reason"]
    assert [row["letter"] for row in found["systems"]["rows"]] == ["a", "b", "c"]
    # ranx counts as we do: its means are those of the runs.
    assert found["ranx"]["corrected"] is False
    for row, record in zip(found["ranx"]["rows"], found["systems"]["rows"], strict=True):
        for name, figure in row["metrics"].items():
            assert figure["value"] == pytest.approx(record["metrics"][name]["value"], abs=1e-12)


def test_same_configuration_is_evaluated_once_until_asked_for_again(
    assay, gold: Path, tmp_path: Path, store: Path
) -> None:
    one = evaluated(assay, gold, "one")
    config = tmp_path / "my.yaml"
    config.write_text("namespace: general\nmerge: {method: rrf}\n")
    run = tmp_path / "mine.trec"
    run.write_text("q1 Q0 d0 1 2.0 mine\nq2 Q0 d1 1 2.0 mine\n")

    def compared(*more: object) -> tuple[list[str], str]:
        made = []
        for candidate in (config, run):
            done = assay("compare", one, candidate, "-o", tmp_path / "c", "--no-why", *more)
            assert done.code == 0, done.err
            written = json.loads((tmp_path / "c" / "comparison.json").read_text())
            made.append(written["comparisons"][0]["candidate"])
        return [c["source"] for c in made], done.out

    def runs() -> int:
        return len(list((store / "runs").iterdir()))

    assert compared()[0] == ["evaluated", "evaluated"]
    assert runs() == 2
    sources, out = compared()
    assert (sources, runs()) == (["reused", "reused"], 2)
    assert "mine.trec: the run of" in out
    assert "was used again" in out
    told = assay("compare", one, config, "-o", tmp_path / "c", "--no-why")
    assert (told.out + told.err).count("used again") == 1
    assert compared("--again")[0] == ["evaluated", "evaluated"]
    assert runs() == 4
    # Other metrics, another configuration and another ranking are other runs.
    config.write_text(
        "namespace: general\nmerge: {method: rrf}\nevaluation: {metrics: [ndcg@10]}\n"
    )
    run.write_text("q1 Q0 d0 1 2.0 mine\n")
    assert compared()[0] == ["evaluated", "evaluated"]


def test_run_of_an_evaluation_in_the_store_is_used(assay, gold: Path, tmp_path: Path) -> None:
    one = evaluated(assay, gold, "one")
    config = tmp_path / "my.yaml"
    config.write_text("namespace: general\nmerge: {method: rrf}\n")
    done = assay("evaluate", gold, "--config", config, "--no-track", "--json")
    assert done.code == 0, done.err
    made = json.loads(done.out)["run"]
    found = assay("compare", one, config, "--no-why", "--json", "-o", tmp_path / "c")
    candidate = json.loads(found.out)["candidate"]
    assert (candidate["source"], candidate["run"]) == ("reused", made)


def test_namespace_that_the_index_cannot_serve_gets_an_index(
    assay, tmp_path: Path, store: Path
) -> None:
    # Every document goes to the biomedical collections: the namespace general finds none of them.
    drugs = {
        "d0": "Gefitinib inhibits EGFR tyrosine kinase in non-small cell lung cancer.",
        "d1": "Capmatinib is a MET kinase inhibitor for metastatic non-small cell lung cancer.",
    }
    gold = write_gold(tmp_path / "drugs", drugs, {"q1": "gefitinib EGFR"}, {"q1": {"d0": 1}})
    base = tmp_path / "base"
    assert assay("evaluate", gold, "-o", base, "--no-track").code == 0
    config = tmp_path / "gen.yaml"
    config.write_text("namespace: general\n")
    index = json.loads((base / "run.json").read_text())["index"]
    refused = assay("evaluate", gold, "--index", index["path"], "--config", config, "--no-track")
    assert refused.code == 2  # else this test says nothing
    assert "built for the namespace biomed" in refused.err
    done = assay("compare", base, config, "-o", tmp_path / "c", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["candidate"]["index"] != index["fingerprint"]
    assert "reason" not in found["causes"]


def test_refused_configuration_leaves_no_run_folder(
    assay, gold: Path, tmp_path: Path, store: Path
) -> None:
    one = evaluated(assay, gold, "one")
    config = tmp_path / "my.yaml"
    config.write_text("namespace: general\nroute: {recall_top_k_by_collection: {nowhere: 5}}\n")
    done = assay("compare", one, config)
    assert done.code == 2
    assert "nowhere" in done.err
    assert not list((store / "runs").glob("*"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "nowhere"], "is no folder"),
        (["{one}", "nosuch.yaml"], "nosuch.yaml: no such file"),
        (["{one}"], "Missing argument"),
        (["{one}", "{one}", "--test", "wilcoxon"], "randomisation or t"),
        (["{one}", "{one}", "--metric", "ndgc@10"], "ndcg@10"),
        (["{one}", "{one}", "--metric", "ndcg@7"], "hold no ndcg@7"),
        (["{one}", "{one}", "--gate", "absent.yaml"], "absent.yaml"),
        (["{one}", "{one}", "-o", "{gold}"], "holds other files"),
        (["default", "{one}"], "--gold FOLDER"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    assay, gold: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    one = evaluated(assay, gold, "one")
    given = [a.format(one=one, gold=gold) for a in arguments]
    done = assay("compare", *given)
    assert done.code == 2
    assert done.out == ""
    (line,) = [one for one in done.err.splitlines() if one.startswith("assay: ")]
    assert message in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", ".", "nosuch.yaml"], "no such file"),
        (["compare", ".", "nosuch"], "is no folder"),
        (["diagnose", "nosuch"], "is no folder"),
    ],
)
def test_absent_run_is_refused_before_anything_heavy_is_loaded(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    code = (
        "import sys\nfrom experiments.cli import main\n"
        f"sys.argv = {['assay', *arguments]!r}\n"
        "try:\n    main()\nexcept SystemExit as stopped:\n    assert stopped.code == 2\n"
        "heavy = {'mlflow', 'numpy', 'pandas', 'ranx', 'torch', 'transformers'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "MLFLOW_TRACKING_URI"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        cwd=tmp_path,
        env={
            **environment,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "ASSAY_STORE": str(tmp_path / "store"),
        },
        capture_output=True,
        text=True,
    )
    assert message in done.stderr
    assert done.stdout == "[]\n"


def test_power_is_told_with_and_without_runs(assay, gold: Path) -> None:
    one = evaluated(assay, gold, "one")
    other = evaluated(assay, gold, "other", "--set", "route.dense_search=false")
    bare = json.loads(assay("power", gold, "--json").out)
    # Four queries: 2 / 2^4 = .125, so nothing is ever detected.
    assert bare["smallest_p"] == pytest.approx(0.125)
    assert bare["metrics"]["ndcg@10"]["smallest_detectable"] is None
    assert bare["metrics"]["ndcg@10"]["more_queries"] > 0
    with_runs = assay("power", gold, one, other)
    assert with_runs.code == 0, with_runs.err
    assert "observed between the two runs" in with_runs.out
    assert "ndcg@10: 4 queries can show nothing, however large; 0.02 needs" in with_runs.out
    config = gold.parent / "my.yaml"
    config.write_text("namespace: general\nroute: {dense_search: false}\n")
    now = json.loads(assay("power", gold, one, config, "--json").out)
    assert now == json.loads(assay("power", gold, one, other, "--json").out)
    # The world has seven documents: recall@100 is 1 for every query and has no spread.
    told = json.loads(assay("power", gold, one, "--json").out)["metrics"]
    assert told["recall@100"]["basis"].startswith("the run has none (every query alike)")
    assert told["ndcg@10"]["basis"].startswith("that of the run by query")
    refused = assay("power", gold, "--difference", "0")
    assert refused.code == 2


@pytest.mark.usefixtures("replay_here")
def test_champion_is_promoted_after_its_gate_and_ranks_as_its_run(
    assay, gold: Path, tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = evaluated(assay, gold, "one")
    gate = tmp_path / "gate.yaml"
    gate.write_text("rules: [{rule: max_drop, metric: ndcg@10, at_most: 0.0}]")
    loose = tmp_path / "loose.yaml"
    loose.write_text("rules: [{rule: max_drop, metric: ndcg@10, at_most: 1.0}]")
    bare = assay("promote", one, "--alias", "champion")
    assert bare.code == 2
    assert "--gate FILE, or --no-gate" in bare.err
    done = assay("promote", one, "--alias", "champion", "--gate", gate, "--json")
    assert done.code == 0, done.err
    promoted = json.loads(done.out)["promoted"]
    assert promoted["version"] == 1
    assert json.loads(done.out)["headline"] is None  # nobody had the alias
    config = tmp_path / "worse.yaml"
    config.write_text("namespace: general\nroute: {recall_top_k: 1, bm25_search: false}\n")
    compared = assay("compare", "champion", config, "--no-why", "--json", "-o", tmp_path / "c")
    assert compared.code == 0, compared.err
    difference = json.loads(compared.out)["metrics"]["ndcg@10"]["difference"]
    assert difference < 0
    worse = json.loads(compared.out)["candidate"]["run"]
    refused = assay("promote", worse, "--alias", "champion", "--gate", gate)
    assert refused.code == 1
    assert "stays where it was" in refused.out

    import mlflow

    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{store / 'mlflow.db'}")
    model = mlflow.pyfunc.load_model("models:/assay@champion")
    queries = pd.DataFrame({"query": list(SMALL_QUERIES.values())})
    hits = model.predict(queries, params={"top_k": 100})
    eroded = assay("promote", worse, "--alias", "champion", "--gate", loose)
    assert eroded.code == 0, eroded.err
    assert f"({difference:+.4f}): lower than champion until now" in eroded.out
    assert "give the gate a floor of ndcg@10 (at_least)" in eroded.out
    recorded: dict[str, list[str]] = {}
    for line in (one / "run.trec").read_text().splitlines():
        query_id, _, document_id, *_ = line.split()
        recorded.setdefault(query_id, []).append(document_id)
    for query_id, text in SMALL_QUERIES.items():
        of_query = hits[hits["query"] == text].sort_values("rank")
        assert list(dict.fromkeys(of_query["document_id"])) == recorded[query_id]
    assert not list(store.rglob("*.pkl"))


def test_promoted_run_loads_elsewhere_and_stands_once_on_the_leaderboard(
    assay, gold: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    done = assay("evaluate", gold, "-o", out, *GENERAL, "--json")
    assert done.code == 0, done.err
    tracked = json.loads(done.out)["mlflow"]["run_id"]
    done = assay("promote", out, "--alias", "champion", "--no-gate", "--json")
    assert done.code == 0, done.err
    promoted = json.loads(done.out)["promoted"]
    assert promoted["run_id"] == tracked
    _line_searches_from_an_empty_folder(promoted["load"], tmp_path / "empty")
    (board,) = json.loads(assay("leaderboard", "--json").out)["boards"]
    (row,) = board["rows"]
    assert (row["run_id"], row["aliases"]) == (tracked, ["champion"])


def test_gate_on_a_metric_that_a_run_lacks_is_refused_before_any_work(
    assay, gold: Path, tmp_path: Path, store: Path
) -> None:
    one = evaluated(assay, gold, "one")
    config, gate = tmp_path / "my.yaml", tmp_path / "gate.yaml"
    config.write_text("namespace: general\nevaluation: {metrics: [hit@5, mrr@10]}\n")
    gate.write_text(
        "rules:\n- {rule: no_fallbacks}\n- {rule: at_least, metric: ndcg@10, value: 0.1}\n"
    )
    done = assay("compare", one, config, "--gate", gate)
    assert done.code == 2
    assert f"{gate}:3: rule 2 (at_least) asks for ndcg@10, which {config} lacks" in done.err
    assert "or change the rule" in done.err
    assert not (store / "runs").exists()


def _line_searches_from_an_empty_folder(line: str, folder: Path) -> None:
    folder.mkdir()
    ours = ("MLFLOW_", "ASSAY_")
    bare = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    found = subprocess.run(
        line.replace("your question", SMALL_QUERIES["q3"]),
        shell=True,
        cwd=folder,
        env={**bare, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    head, first, *_ = found.stdout.splitlines()
    assert head.split() == ["rank", "document_id", "score"]
    assert first.split()[1:3] == ["1", "d4"]
    # MLflow made no database of its own.
    assert list(folder.iterdir()) == []


def swapped(run: Path) -> None:
    """Give the first query's second document its first place."""
    lines = (run / "run.trec").read_text().splitlines()
    lines[0], lines[1] = lines[1].replace(" 2 ", " 1 "), lines[0].replace(" 1 ", " 2 ")
    scores = [line.split()[4] for line in lines[:2]]
    lines[:2] = [
        line.replace(f" {score} ", f" {other} ")
        for line, score, other in zip(lines[:2], scores, reversed(scores), strict=True)
    ]
    (run / "run.trec").write_text("".join(f"{line}\n" for line in lines))


def flattered(run: Path) -> None:
    """Claim a better mean than the queries have."""
    record = json.loads((run / "run.json").read_text())
    record["metrics"]["ndcg@10"]["value"] = 0.999
    (run / "run.json").write_text(json.dumps(record))


@pytest.mark.usefixtures("replay_here")
def test_promotion_is_refused_when_the_run_was_tampered_with(
    assay, gold: Path, store: Path
) -> None:
    one = evaluated(assay, gold, "one")
    swapped(one)
    flattered(one)
    done = assay("promote", one, "--alias", "champion", "--no-gate")
    assert done.code == 2
    assert "does not give what the run recorded: ndcg@10 0.999000 recorded, " in done.err
    assert "other rankings for 1 (q1) of 4 queries" in done.err
    assert done.out == ""
    # Neither a run nor a model has come to be.
    assert not (store / "mlflow.db").exists()


def test_promotion_is_refused_when_the_index_is_damaged(assay, gold: Path, store: Path) -> None:
    one = evaluated(assay, gold, "one")
    index = Path(json.loads((one / "run.json").read_text())["index"]["path"])
    file = max(index.rglob("*.faiss"))
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    done = assay("promote", one, "--alias", "champion", "--no-gate")
    assert done.code == 2
    assert file.name in done.err
    assert not (store / "mlflow.db").exists()


def test_promotion_is_refused_when_the_gold_set_has_gone(assay, gold: Path) -> None:
    one = evaluated(assay, gold, "one")
    gold.rename(gold.with_name("moved"))
    done = assay("promote", one, "--alias", "champion", "--no-gate")
    assert done.code == 2
    assert "give --gold FOLDER" in done.err


def test_leaderboard_orders_runs_by_gold_set(assay, gold: Path, tmp_path: Path) -> None:
    assert assay("leaderboard").code == 2
    for name, sets in (("one", []), ("other", ["--set", "route.recall_top_k=1"])):
        done = assay("evaluate", gold, "-o", tmp_path / name, *GENERAL, *sets)
        assert done.code == 0, done.err
    found = json.loads(assay("leaderboard", "--metric", "recall@100", "--json").out)
    (board,) = found["boards"]
    assert board["runs"] == 2
    values = [row["value"] for row in board["rows"]]
    assert values == sorted(values, reverse=True)
    assert {row["name"] for row in board["rows"]} == {"one", "other"}
    other = json.loads(assay("leaderboard", "--metric", "mrr@7", "--json").out)
    assert other["left_out"] == {"without mrr@7": 2}
    assert "one" in assay("leaderboard").out
