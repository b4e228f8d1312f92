"""The source system's own query files, imported against public labels and compounds."""

import csv
import json
import os
from collections import Counter
from pathlib import Path

import pytest

from gold import import_gold, load, validate

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("ASSAY_DATA", ROOT / "../shared/data"))

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(
        not all((DATA / name).is_dir() for name in ("eagle_queries", "drug_labels", "compounds")),
        reason="public data not at ASSAY_DATA",
    ),
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sections of 38 labels, and a card for each approved drug and each kinase inhibitor."""
    path = tmp_path_factory.mktemp("corpus") / "corpus.jsonl"
    lines = (DATA / "drug_labels" / "corpus.jsonl").read_text("utf-8").splitlines()
    cards: dict[str, str] = {}
    with (DATA / "compounds" / "chembl_approved_drugs.csv").open(encoding="utf-8") as table:
        for row in csv.DictReader(table):
            cards.setdefault(row["pref_name"].lower(), row["smiles"])
    with (DATA / "compounds" / "pkidb_20200218.csv").open(encoding="utf-8") as table:
        for row in csv.DictReader(table):
            cards.setdefault(row["INN_Name"].lower(), row["Canonical_Smiles"])
    for number, (name, smiles) in enumerate(cards.items()):
        metadata = {"name": f"compound_{name}", "smiles": smiles}
        card = {"_id": f"card-{number}", "title": name, "text": f"{name} {smiles}"}
        lines.append(json.dumps({**card, "metadata": metadata}))
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


# Antibodies and one Chinese drug are in neither table; guidance, company papers and labels named
# by file are no part of this corpus.
LABELS = ("sunitinib", "cabozantinib", "lenvatinib", "regorafenib", "osimertinib", "gefitinib")
EVERYWHERE = {"guidance": 1, "E6": 1, "company": 1, "HUTCHMED": 1, "label_sunitinib": 1}


@pytest.mark.parametrize(
    ("name", "counts", "unresolved"),
    [
        (
            "aligned",
            {"aligned": 28, "partial": 0, "absent": 18},
            EVERYWHERE
            | {f"label_{drug}": 1 for drug in (*LABELS, "bevacizumab", "everolimus")}
            | {"sintilimab": 2, "surufatinib": 4, "bevacizumab": 2},
        ),
        (
            "smoke",
            {"aligned": 16, "partial": 4, "absent": 10},
            EVERYWHERE | {"sintilimab": 1, "surufatinib": 5, "guidance": 2},
        ),
    ],
)
def test_queries_are_labelled_when_the_sources_file_is_imported(
    corpus: Path, tmp_path: Path, name: str, counts: dict[str, int], unresolved: dict[str, int]
) -> None:
    source = DATA / "eagle_queries" / f"eval_queries.{name}.jsonl"
    report = import_gold(source, corpus, tmp_path / "set")
    assert report.counts == counts
    assert {missing: len(ids) for missing, ids in report.missing_names.items()} == unresolved
    gold = load(tmp_path / "set")
    assert len(gold.queries) == counts["aligned"] + counts["partial"]
    problems = validate(tmp_path / "set")
    assert problems.ok
    assert Counter(p.code for p in problems.problems)["unjudged-query"] == min(counts["absent"], 1)
