"""Data mended in memory equals a build of the mended source."""

from pathlib import Path

import numpy as np
import pytest
from stage_worlds import open_world

from retriever.biomed.routing import CHEMICAL
from retriever.files import InputError
from retriever.hooks import StructureChunk
from retriever.pipeline import Trace

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
CARDS = [
    {"_id": "b", "name": "card b", "text": "Gefitinib is a kinase inhibitor."},
    {"_id": "c", "name": "card c", "text": "Ethane, a gas.", "smiles": "CC"},
    {"_id": "d", "name": "card d", "text": "WARNINGS\nGefitinib may harm."},
]
MENDED = [{**CARDS[0], "smiles": ASPIRIN}, *CARDS[1:]]
QUESTIONS = [f"compound {ASPIRIN}", "gefitinib warnings", "ethane"]


def table(trace: Trace) -> list[object]:
    final = trace.final
    return [
        trace.slots.chunk.tolist(),
        final.order.tolist(),
        final.count.tolist(),
        np.nan_to_num(final.score, nan=-1.0, neginf=-2.0).tolist(),
    ]


def test_given_structure_equals_a_build_with_it(tmp_path: Path) -> None:
    without = open_world(tmp_path / "without", CARDS)
    whole = open_world(tmp_path / "whole", MENDED)
    mended = without.with_mended({"b": StructureChunk(CHEMICAL, "compound", ASPIRIN)})
    assert mended.index.chunks.chunk_ids == whole.index.chunks.chunk_ids
    assert table(mended.trace(QUESTIONS)) == table(whole.trace(QUESTIONS))
    assert table(mended.trace(QUESTIONS)) != table(without.trace(QUESTIONS))
    assert "b#compound" not in without.index.chunks.chunk_ids


def test_first_structure_makes_its_collection(tmp_path: Path) -> None:
    plain = [card for card in CARDS if "smiles" not in card]
    without = open_world(tmp_path / "without", plain)
    whole = open_world(tmp_path / "whole", [{**plain[0], "smiles": ASPIRIN}, *plain[1:]])
    assert CHEMICAL not in without.index.collections
    mended = without.with_mended({"b": StructureChunk(CHEMICAL, "compound", ASPIRIN)})
    assert table(mended.trace(QUESTIONS)) == table(whole.trace(QUESTIONS))


def test_named_section_is_scored(tmp_path: Path) -> None:
    cards = [{"_id": "d", "name": "card d", "text": "Gefitinib may harm."}]
    retriever = open_world(tmp_path, cards)
    (chunk_id,) = retriever.index.chunks.chunk_ids
    mended = retriever.with_mended(sections={chunk_id: "warnings"})
    before, after = (r.trace(["gefitinib warnings"]).final for r in (retriever, mended))
    assert before.terms["section"].tolist() == [[0.0]]
    assert after.terms["section"].tolist() == [[1.0]]


def test_overlay_of_unknown_things_is_refused(tmp_path: Path) -> None:
    retriever = open_world(tmp_path, CARDS)
    compound = StructureChunk(CHEMICAL, "compound", ASPIRIN)
    with pytest.raises(InputError, match="no document 'z'"):
        retriever.with_mended({"z": compound})
    with pytest.raises(InputError, match="'c' has a structure already"):
        retriever.with_mended({"c": compound})
    with pytest.raises(InputError, match="no chunk 'z'"):
        retriever.with_mended(sections={"z": "warnings"})
