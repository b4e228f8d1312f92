"""Renderings of a comparison: they show what it holds, escape it, and stay short."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from run_worlds import write_run

from experiments.comparison.compare import compare_runs
from reports.faults import InputError
from reports.junit import to_junit
from reports.markdown import LONGEST_MARKDOWN, to_markdown
from reports.plain import to_text
from reports.regression import read_comparison, to_html

EVIL = "<img src=x onerror=alert(1)> | `code` @somebody #12 [link](http://x)"


def made(folder: Path, queries: int = 12, text: str = "plain", **more: Any) -> dict[str, Any]:
    values = [0.5] * queries
    moved = [0.1] * (queries // 2) + [0.5] * (queries - queries // 2)
    columns = {"text": [text] * queries, "class": ["ok"] * queries}
    after = {**columns, "class": ["ranking_gap", *["ok"] * (queries - 1)]}
    one = write_run(folder / "a", {"ndcg@10": values, "hit@5": [1.0] * queries}, columns)
    other = write_run(folder / "b", {"ndcg@10": moved, "hit@5": [1.0] * queries}, after)
    comparison = compare_runs(one, [other, one], labels=["base", "new", "same"], **more)
    comparison["comparisons"][0]["gate"] = {
        "passed": False,
        "source": "gate.yaml",
        "alpha": 0.05,
        "rules": [
            {"rule": "no significant drop", "passed": False, "detail": f"p .01 {text}\x00"},
            {"rule": "judged", "passed": True, "detail": "0.9"},
        ],
    }
    comparison["comparisons"][0]["causes"] = {
        "metric": "ndcg@10",
        "differences": ["merge.rrf_k", "fuse.alpha"],
        "untried": {"fuse.alpha": "refused"},
        "pairs": {"tried": 1, "left_out": 3},
        "losses": {"queries": 6, "explained": 5, "not_attributable": 1, "not_reproduced": 0},
        "gains": {"queries": 0, "explained": 0, "not_attributable": 0, "not_reproduced": 0},
        "totals": [{"cause": ["merge.rrf_k"], "losses": 5, "gains": 0}],
        "made_alone": [{"cause": ["fuse.alpha"], "losses": 1, "gains": 0}],
        "summary": ["merge.rrf_k explains 5 of 6 losses"],
        "queries": [
            {
                "query_id": "q0000",
                "difference": -0.4,
                "reproduced": True,
                "causes": [["merge.rrf_k"]],
                "made_alone": ["fuse.alpha"],
            }
        ],
    }
    return comparison


def test_every_rendering_shows_figures_causes_and_verdicts(tmp_path: Path) -> None:
    comparison = made(tmp_path)
    page = to_html(comparison).replace("<wbr>", "")
    for text in (page, to_markdown(comparison), to_text(comparison)):
        # Half of the queries lost .4: the mean difference is -.2
        for shown in ("-0.2000", "merge.rrf", "5", "no significant drop", "ranking"):
            assert shown in text
        assert "fuse.alpha made alone" in text
    assert '<code>fuse.alpha</code> <span class="muted small">made alone</span>' in page
    assert "3 pairs" in to_markdown(comparison)
    assert "merge.rrf\\_k explains 5 of 6 losses" in to_markdown(comparison)


def test_text_stays_text_in_html_and_markdown(tmp_path: Path) -> None:
    comparison = made(tmp_path, text=EVIL)
    page = to_html(comparison)
    assert "<img" not in page
    assert "&lt;img" in page
    markdown = to_markdown(comparison)
    assert "<img" not in markdown
    assert "&lt;img" in markdown
    assert " @somebody" not in markdown
    # An unescaped bar would add a cell to the seven of a mover's row.
    (row,) = (line for line in markdown.splitlines() if line.startswith("| q0000"))
    assert len(re.findall(r"(?<!\\)\|", row)) == 8


@pytest.mark.parametrize("queries", [12, 3000])
def test_markdown_stays_short_whatever_the_size(tmp_path: Path, queries: int) -> None:
    comparison = made(tmp_path, queries=queries, text=EVIL * 40, most_movers=queries)
    markdown = to_markdown(comparison)
    assert len(markdown) < LONGEST_MARKDOWN
    assert "base against new" in markdown
    assert "no significant drop" in markdown
    if queries > 1000:
        assert "more lines of movers left out" in markdown


def test_junit_is_xml_that_counts_the_broken_rules(tmp_path: Path) -> None:
    root = ElementTree.fromstring(to_junit(made(tmp_path, text=EVIL)))
    assert (root.get("tests"), root.get("failures")) == ("2", "1")
    (failure,) = root.iter("failure")
    assert "<img" in (failure.get("message") or "")
    assert "\x00" not in (failure.text or "")
    names = [suite.get("name") for suite in root.iter("testsuite")]
    assert names == ["base against new", "base against same"]


def test_rule_that_judged_nothing_is_neither_held_nor_broken(tmp_path: Path) -> None:
    comparison = made(tmp_path)
    comparison["comparisons"][0]["gate"] |= {
        "passed": True,
        "rules": [{"rule": "critical", "passed": None, "detail": "nothing was watched"}],
    }
    assert "  not judged critical: nothing" in to_text(comparison)
    assert "| not judged | critical |" in to_markdown(comparison)
    page = to_html(comparison)
    assert '<td class="holds">not judged</td>' in page
    assert "✓ holds" not in page
    assert "✗ broken" not in page
    root = ElementTree.fromstring(to_junit(comparison))
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("1", "0", "1")
    (skipped,) = root.iter("skipped")
    assert skipped.get("message") == "nothing was watched"


def test_comparison_is_read_back_and_others_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "comparison.json"
    file.write_text(json.dumps(made(tmp_path)))
    assert to_html(read_comparison(tmp_path)) == to_html(read_comparison(file))
    for text, message in (
        ("{}", "no comparison"),
        ("[", "no JSON"),
        ('{"kind":"comparison","format":9}', "format 9"),
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=message):
            read_comparison(file)
    with pytest.raises(InputError, match="cannot be read"):
        read_comparison(tmp_path / "absent.json")


def test_page_names_the_stage_and_keeps_the_lists_for_its_title(tmp_path: Path) -> None:
    comparison = made(tmp_path)
    found = comparison["comparisons"][0]
    found["movers"][0] |= {"stage": "lists", "lists": ["one:bm25", "two:dense"]}
    found["metrics"]["ndcg@10"] |= {"p_value": 0.0004, "p_adjusted": 0.02}
    page = to_html(comparison)
    assert '<td title="one:bm25, two:dense">lists (2)</td>' in page
    assert "&lt;0.001" in page
    assert "lists (one:bm25, two:dense)" in to_text(comparison)


def test_every_rendering_lists_the_movers_that_the_comparison_holds(tmp_path: Path) -> None:
    comparison = made(tmp_path, queries=40, most_movers=15)
    comparison["comparisons"] = comparison["comparisons"][:1]
    for text in (to_html(comparison), to_markdown(comparison), to_text(comparison)):
        assert all(f"q{row:04}" in text for row in range(15))
        assert "q0015" not in text


@pytest.mark.parametrize("mark", ["\x1b]0;owned\x07", "\x9b2J", "\u202eabc", "\x7f"])
def test_text_of_a_file_commands_no_terminal(mark: str) -> None:
    from reports.visible import visible

    shown = visible(f"a{mark}\tb\n")
    assert shown.startswith("a\\")
    assert shown.endswith("\tb\n")
    assert visible(shown) == shown
