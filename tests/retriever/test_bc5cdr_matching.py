"""Matching on real abstracts: the floors that the lexicon, pruning and abbreviations must hold."""

import os
from pathlib import Path

import pytest

from benchmarks.bc5cdr_matching import abstracts, compounds, count, steps

DATA = Path(os.environ.get("ASSAY_DATA", Path(__file__).resolve().parents[2] / "../shared/data"))


@pytest.mark.data
@pytest.mark.skipif(not (DATA / "bc5cdr").is_dir(), reason="public sets not at ASSAY_DATA")
@pytest.mark.parametrize(("kind", "floor"), [("Chemical", 0.83), ("Disease", 0.72)])
def test_exact_spans_are_found_by_a_lexicon_of_the_dev_split(kind: str, floor: float) -> None:
    sample, judge = abstracts(DATA, ["dev"], kind), abstracts(DATA, ["test"], kind)
    assert len(sample) == len(judge) == 500
    lexicons = steps(sample, compounds(DATA) if kind == "Chemical" else [])
    figures = count(lexicons["+ pruning"], judge, abbreviations=True).figures()
    assert figures["f1"] >= floor
    plain = count(lexicons["longest match"], judge, abbreviations=False).figures()
    assert figures["f1"] > plain["f1"]
