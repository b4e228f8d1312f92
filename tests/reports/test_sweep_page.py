"""The page of a sweep: what it says, what it leaves out and why, and that text stays text."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from sweep_records import METHOD, K, sweep_record, write_sweep

from reports.faults import InputError
from reports.sweep import read_sweep, to_html


def page(folder: Path, **changes: Any) -> str:
    return to_html(read_sweep(write_sweep(folder / "sweep", **changes)))


def text_of(html: str) -> str:
    main = html.partition("<main")[2].partition("</main>")[0]
    return " ".join(re.sub(r"<[^>]*>", " ", main).split())


def test_verdict_comes_first(tmp_path: Path) -> None:
    text = text_of(page(tmp_path))
    assert text.index("Not distinguishable from the default on 20 queries") < 40
    assert "+0.0400 -0.0200 to +0.1000" in text
    # Train gained .11, test .04.
    assert "Overfit gap +0.0700" in text
    assert "+0.1100" in text


def test_every_part_is_there_when_a_sweep_found_something(tmp_path: Path) -> None:
    html = page(tmp_path)
    for part in ("history", "importance", "slices", "chosen", "choice", "inert", "conditional"):
        assert f'id="{part}"' in html
    for part in ("front", "profiles", "failures"):
        assert f'id="{part}"' not in html
    text = text_of(html)
    assert "merge.method is rrf" in text
    assert "No ranking changes inject.min_new" in text
    # K was read by the odd trials alone.
    assert "rrf_k read by 6" in text


def test_importance_is_left_out_with_the_reason_when_nothing_varied(tmp_path: Path) -> None:
    missing = {"values": None, "reason": "no variation", "trials": 12, "best": None}
    html = page(tmp_path, importance=missing)
    assert "None shown: no variation." in text_of(html)
    assert "bar-fill" not in html.partition("<main")[2]


def test_slices_are_left_out_when_every_trial_scored_the_same(tmp_path: Path) -> None:
    assert 'id="slices"' not in page(tmp_path, trials=1)


def test_test_is_not_shown_twice_when_the_default_was_chosen(tmp_path: Path) -> None:
    best = sweep_record(12)["best"] | {"parameters": {}, "changed": 0, "differences": {}}
    text = text_of(page(tmp_path, best=best))
    assert "The chosen configuration is the default: there is nothing to test." in text
    assert "Paired permutation test" not in text
    assert "It is the default." in text


def test_failed_trials_show_their_reasons(tmp_path: Path) -> None:
    failures = [{"reason": "ValueError: no", "trials": [3, 12], "parameters": {K: 3.0}}]
    text = text_of(page(tmp_path, failed=2, failures=failures))
    assert "2 ValueError: no 3, 12" in text


def test_front_is_shown_when_there_are_several_objectives(tmp_path: Path) -> None:
    front = [
        {"trial": i, "values": [0.5 + i / 100, 0.61 - i / 100], "parameters": {}} for i in (0, 11)
    ]
    figures = {"default": 0.5, "chosen": 0.4, "difference": -0.1}
    changes: dict[str, Any] = {
        "objective": ["ndcg@10", "hit@5"],
        "objectives": {"ndcg@10": figures, "hit@5": figures},
        "pareto": front,
    }
    html = page(tmp_path, **changes)
    assert 'id="front"' in html
    assert "2 trials on the front" in html
    assert "hit@5 0.5000 0.4000 -0.1000" in text_of(html)
    assert "the chosen, trial 11, is ringed" in text_of(html)
    assert html.count('class="chosen-ring"') == 2  # in the history and on the front
    made = sweep_record(12)["best"] | {"is_trial": False, "name": "trial 11, simplified"}
    html = page(tmp_path / "made", **changes, best=made)
    assert "the chosen, trial 11, simplified, is not one of them" in text_of(html)
    assert html.count('class="chosen-ring"') == 1


def test_ring_and_figure_are_of_the_configuration_given_out(tmp_path: Path) -> None:
    made = {"is_trial": False, "name": "trial 11, simplified", "train": 0.55}
    best = sweep_record(12)["best"] | made
    html = page(tmp_path, best=best, train={"queries": 60, "default": 0.5, "chosen": 0.55})
    plain = page(tmp_path / "plain")
    rings = [re.findall(r'chosen-ring" cx="(\S+)" cy="(\S+)"', one) for one in (html, plain)]
    # Over the same trial, .55 below its .61.
    assert rings[0][0][0] == rings[1][0][0]
    assert float(rings[0][0][1]) > float(rings[1][0][1])
    assert "Trial 11, simplified: ndcg@10 0.5500 on train" in text_of(html)
    assert "The ring is the chosen configuration: trial 11, simplified." in text_of(html)


def test_folds_say_that_they_judge_the_procedure(tmp_path: Path) -> None:
    fold = {
        "queries": 10,
        "default": 0.5,
        "chosen": 0.55,
        "train": {"default": 0.5, "chosen": 0.6},
        "validation": {"default": 0.5, "chosen": 0.52},
    }
    text = text_of(page(tmp_path, folds=2, by_fold=[fold, fold]))
    assert "in each of 2 folds" in text
    # Gains of .6 - .5, .52 - .5 and .55 - .5.
    assert "1 10 +0.1000 +0.0200 +0.0500" in text


def test_weights_are_by_workflow_when_the_space_has_rows(tmp_path: Path) -> None:
    space = sweep_record(12)["space"]
    path = "plugins.biomed.rerank_merged.profiles.chemical.w_rank"
    one = {**space["parameters"][K], "workflow": "chemical", "default": 3.0, "chosen": 4.5}
    space["parameters"] = {METHOD: space["parameters"][METHOD], path: one}
    folder = write_sweep(tmp_path / "sweep", space=space)
    import pyarrow.parquet as pq

    table = pq.read_table(folder / "trials.parquet")
    names = [f"parameter:{path}" if name.endswith("rrf_k") else name for name in table.column_names]
    pq.write_table(table.rename_columns(names), folder / "trials.parquet")
    assert "chemical 3 4.5" in text_of(to_html(read_sweep(folder)))


def test_text_stays_text(tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>"
    html = page(
        tmp_path,
        verdict_in_words=evil,
        study=evil,
        inert={evil: evil},
        failed=1,
        failures=[{"reason": evil, "trials": [1], "parameters": {evil: evil}}],
        importance={"values": {evil: 1.0}, "reason": None, "trials": 30, "best": 0.1},
    )
    assert "<img" not in html
    assert "&lt;img src=x onerror=alert(1)&gt;" in html


def test_page_needs_no_network_and_no_markup_of_style(tmp_path: Path) -> None:
    html = page(tmp_path)
    assert "http" not in re.sub(
        r"http-equiv|http://www.w3.org\S*", "", html.partition("</style>")[2]
    )
    assert " style=" not in html


def test_low_values_are_counted_when_they_lie_below_the_picture(tmp_path: Path) -> None:
    # 40 trials from .50 to .89: a twentieth, two, are below .52; less .03 * .37 the scale begins at
    # .509, and of .50 and .51 one is below it.
    assert "Below the scale, drawn on its lower edge: 1 trial." in text_of(
        page(tmp_path, trials=40)
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no JSON"),
        ("[]", "no record of a sweep"),
        (json.dumps({"kind": "sweep", "format": 9}), "sweep format 9; this version reads 1"),
    ],
)
def test_folder_is_refused_when_its_record_is_not_ours(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(InputError, match=message):
        read_sweep(tmp_path)


def test_folder_is_refused_when_its_record_is_of_an_earlier_version(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a sweep of an earlier version"):
        read_sweep(write_sweep(tmp_path / "sweep", conditional=[K]))


def test_page_says_under_the_verdict_that_few_queries_choose(tmp_path: Path) -> None:
    choice = sweep_record(12)["choice"] | {"few": True, "in_words": "the choice is made on few"}
    text = text_of(page(tmp_path, choice=choice))
    assert text.count("The choice is made on few.") == 1
    assert text.index("The choice is made on few.") < text.index("On test")
    usual = text_of(page(tmp_path / "usual"))
    assert usual.index("How it was chosen") < usual.index("The choice is made on 20 queries.")


def test_conditional_parameters_are_told_apart_when_the_look_found_one(tmp_path: Path) -> None:
    text = text_of(page(tmp_path, conditional={K: "narrowed"}))
    assert "2 parameters swept, 1 conditional (1 narrowed)" in text
    assert "merge.method is rrf merge.rrf_k narrowed" in text


def test_folder_is_refused_when_it_holds_no_sweep(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no folder of a sweep"):
        read_sweep(tmp_path)


def test_folder_is_refused_when_its_table_is_damaged(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path / "sweep")
    (folder / "trials.parquet").write_bytes(b"PAR1 no PAR1")
    with pytest.raises(InputError, match=r"trials\.parquet: cannot be read"):
        read_sweep(folder)
    (folder / "trials.parquet").unlink()
    with pytest.raises(InputError, match=r"trials\.parquet: cannot be read"):
        read_sweep(folder)
