"""Structures as vectors: parents of salts, cosines worked out by hand, a public look-up."""

import csv
import math
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retriever.encoders.molecule import MorganStructures, parent_smiles
from retriever.files import InputError, read_json_lines

DATA = Path(os.environ.get("ASSAY_DATA", Path(__file__).resolve().parents[2] / "../shared/data"))
encoder = MorganStructures()


def cosine(one: str, other: str) -> float:
    vectors = encoder.encode_documents([one, other]).astype(np.float64)
    return float(vectors[0] @ vectors[1])


@pytest.mark.parametrize(
    ("smiles", "parent"),
    [
        ("CC(=O)[O-].[Na+]", "CC(=O)O"),
        ("O.Cl.Cl.CN", "CN"),
        ("C[NH3+].[Cl-]", "CN"),
        ("CN.OS(=O)(=O)O", "CN"),
        ("CS(=O)(=O)O.CCOC(=O)c1ccc(N)cc1", "CCOC(=O)c1ccc(N)cc1"),
        ("C[N+](C)(C)C.[Br-]", "C[N+](C)(C)C"),
        ("CS(=O)CC", "CC[S+](C)[O-]"),
        ("CC[S+](C)[O-]", "CC[S+](C)[O-]"),
        ("OC(C)=O", "CC(=O)O"),
        ("N.N.Cl[Pt]Cl", "[Cl][Pt][Cl]"),
        ("C[C@H](N)C(=O)O", "C[C@H](N)C(=O)O"),
        ("[2H]C([2H])([2H])O", "[2H]C([2H])([2H])O"),
    ],
)
def test_parent_has_no_salt_and_no_needless_charge(smiles: str, parent: str) -> None:
    assert parent_smiles(smiles) == parent


@pytest.mark.parametrize(
    "text", ["", "  ", "aspirin", "C1CC", "c1ccccc", "C(C)(C)(C)(C)C", "C" * 2_001]
)
def test_parent_is_none_when_text_is_no_structure(
    text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert parent_smiles(text) is None
    assert capfd.readouterr() == ("", "")


def test_cosine_is_the_one_worked_out_by_hand() -> None:
    # Environments of ethane: CH3 twice, CH3-CH3 once (both ends see the same bond): (2, 1).
    # Of propane: CH3 twice, CH2 once, CH3-CH2 twice, CH3-CH2-CH3 once: (2, 1, 2, 1).
    # Only CH3 is common: 2 * 2 / (sqrt(4 + 1) * sqrt(4 + 1 + 4 + 1)) = 4 / sqrt(50) = .565685
    assert cosine("CC", "CCC") == pytest.approx(4 / math.sqrt(50), abs=1e-6)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("CC(=O)Oc1ccccc1C(=O)O", "OC(=O)C1=CC=CC=C1OC(C)=O"),
        ("CN1CCC[C@H]1c1cccnc1", "CN1CCC[C@H]1c1cccnc1.OC(=O)C(O)C(O)C(=O)O"),
        ("CC(=O)[O-].[K+]", "CC(=O)O"),
        ("CS(=O)CC", "CC[S+](C)[O-]"),
    ],
)
def test_cosine_is_one_when_parents_are_equal(one: str, other: str) -> None:
    assert cosine(one, other) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("CN1CCC[C@H]1c1cccnc1", "CN1CCC[C@@H]1c1cccnc1"),
        ("CCCCCCCCN", "CCCCCCCCCCCN"),
        ("CC(=O)O", "CC(=O)N"),
    ],
)
def test_cosine_is_below_one_when_parents_differ(one: str, other: str) -> None:
    assert cosine(one, other) < 0.999


def test_vectors_are_unit_and_have_the_stated_shape() -> None:
    vectors = encoder.encode_queries(["CCO", "[Na+].[Cl-]", "c1ccccc1"])
    assert vectors.shape == (3, encoder.dimension) == (3, 2048)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1, 1], abs=1e-6)
    assert encoder.encode_documents([]).shape == (0, 2048)


def test_text_that_is_no_structure_is_an_error_not_a_vector() -> None:
    with pytest.raises(InputError, match="'aspirin' is no structure"):
        encoder.encode_documents(["CCO", "aspirin"])
    with pytest.raises(InputError, match="no tokens"):
        encoder.token_spans(["CCO"])


def test_fingerprint_changes_when_rdkit_does(monkeypatch: pytest.MonkeyPatch) -> None:
    before = encoder.fingerprint
    assert MorganStructures().fingerprint == before
    monkeypatch.setattr("rdkit.rdBase.rdkitVersion", "0")
    assert encoder.fingerprint != before
    assert encoder.name == "rdkit-morgan-r2-2048"


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(["C", "N", "O", "c1ccccc1", "C(=O)", "S", "[C@H](F)"]), min_size=1))
def test_parent_of_a_parent_is_itself_and_salts_change_nothing(parts: list[str]) -> None:
    smiles = "C" + "".join(parts)
    parent = parent_smiles(smiles)
    assert parent is not None
    assert parent_smiles(parent) == parent
    assert parent_smiles(f"{smiles}.Cl") == parent
    vectors = encoder.encode_documents([smiles, f"[K+].{parent}"])
    assert np.array_equal(vectors[0], vectors[1])


@pytest.mark.data
@pytest.mark.skipif(not (DATA / "kinase_lookup").is_dir(), reason="public sets not at ASSAY_DATA")
def test_foreign_smiles_and_salts_find_their_compound_among_all_known_structures() -> None:
    folder = DATA / "kinase_lookup"
    corpus = [document for _, document in read_json_lines(folder / "corpus.jsonl")]
    queries = [
        query
        for _, query in read_json_lines(folder / "queries.jsonl")
        if query["metadata"]["type"].startswith("smiles")
    ]
    judged: dict[str, set[str]] = {}
    for line in (folder / "qrels" / "test.tsv").read_text("utf-8").splitlines()[1:]:
        query_id, document_id, _ = line.split("\t")
        judged.setdefault(query_id, set()).add(document_id)
    csv.field_size_limit(sys.maxsize)
    with (DATA / "compounds" / "structures.tsv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t"))
    held = {row["parent_inchikey"] for row in rows if row["source"] == "pkidb"}
    decoys = {
        row["parent_inchikey"]: row["parent_canonical_smiles"]
        for row in rows
        if row["parent_inchikey"] not in held
    }
    assert len(queries) == 104
    assert len(decoys) > 6_000

    texts = [document["metadata"]["smiles"] for document in corpus] + list(decoys.values())
    ids = [document["_id"] for document in corpus] + [""] * len(decoys)
    cosines = encoder.encode_queries([query["text"] for query in queries]) @ (
        encoder.encode_documents(texts).T
    )
    hits = [
        ids[int(np.argmax(row))] in judged[query["_id"]]
        and np.count_nonzero(row > row.max() - 1e-6) == 1
        for query, row in zip(queries, cosines, strict=True)
    ]
    assert sum(hits) / len(hits) >= 0.99
