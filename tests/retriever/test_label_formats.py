"""One set of labels in four formats: the same sections, the same drugs, the same answers."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from label_files import FORMATS, Label, LabelSection, write_label
from worlds import HashedWords

from retriever import Query, Retriever, build_index
from retriever.encoders.base import TextEncoder
from retriever.encoders.molecule import MorganStructures

DATA = Path(os.environ.get("ASSAY_DATA", Path(__file__).parents[3] / "shared" / "data"))

WORLD = [
    Label(
        "iressa",
        "Iressa",
        "gefitinib",
        [
            LabelSection(
                "1 INDICATIONS AND USAGE",
                "Iressa is indicated for metastatic non-small cell lung cancer with EGFR exon 19 "
                "deletions.",
                "34067-9",
            ),
            LabelSection(
                "2 DOSAGE AND ADMINISTRATION",
                "The recommended dose is 250 mg once daily with or without food.",
                "34068-7",
            ),
            LabelSection(
                "2.3 Dose modifications",
                "Hold for interstitial lung disease. Avoid strong CYP3A4 inducers; otherwise "
                "raise the dose to 500 mg daily.",
                "42229-5",
                depth=2,
            ),
            LabelSection(
                "5 WARNINGS AND PRECAUTIONS",
                "Interstitial lung disease, hepatotoxicity, and gastrointestinal perforation.",
                "43685-7",
            ),
        ],
    ),
    Label(
        "lipitor",
        "Lipitor",
        "atorvastatin",
        [
            LabelSection(
                "1 INDICATIONS AND USAGE",
                "Lipitor lowers LDL cholesterol and reduces the risk of myocardial infarction.",
                "34067-9",
            ),
            LabelSection("4 CONTRAINDICATIONS", "Active liver disease.", "34070-3"),
            LabelSection(
                "What to tell your doctor",
                "Report muscle pain at once.\nDo not drink large amounts of grapefruit juice.",
            ),
        ],
    ),
]
QUESTIONS = ["Iressa dose", "gefitinib warnings", "muscle pain", "atorvastatin contraindications"]


def answers(
    folder: Path, out: Path, encoders: Mapping[str, TextEncoder] | None, cache: Path
) -> tuple[dict[str, Any], list[list[str]]]:
    """Stamps by label, and for each question the sections found, labels by the stem of a file."""
    report = build_index(folder, out, encoders=encoders, cache=cache)
    retriever = Retriever.open(report.index, encoders=encoders, cache=cache)
    chunks = report.index.chunks
    rows = range(len(chunks))
    stem = [Path(path).stem for path in chunks.values("path", rows)]
    place = {chunks.chunk_ids[row]: f"{stem[row]} {chunks.value('section', row)}" for row in rows}
    stamps: dict[str, set[str]] = {}
    for drug, of_drug in chunks.rows_by_value("biomed:primary").items():
        for row in of_drug:
            stamps.setdefault(stem[row], set()).add(drug)
    asked = QUESTIONS if encoders else QUESTIONS_OF_REAL_LABELS
    found = retriever.search_many([Query(text) for text in asked])
    return stamps, [[place[hit.chunk_id] for hit in result.hits] for result in found]


def add_files_without_text(folder: Path) -> None:
    from fpdf import FPDF
    from PIL import Image

    Image.new("RGB", (30, 30), "white").save(folder.parent / "scan.png")
    scan = FPDF()
    scan.add_page()
    scan.image(str(folder.parent / "scan.png"))
    (folder / "scanned.pdf").write_bytes(bytes(scan.output()))
    (folder / "broken.pdf").write_bytes((folder / "scanned.pdf").read_bytes()[:200])
    (folder / "empty.html").write_bytes(b"")


@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_a_label_gives_the_same_answers_in_every_format(tmp_path: Path, kind: str) -> None:
    encoders = {
        "eagle_text": HashedWords(),
        "eagle_text_biomed": HashedWords(seed=1),
        "eagle_chemical": MorganStructures(),
    }
    results = {}
    for name in (kind, "html"):
        folder = tmp_path / name
        for label in WORLD:
            write_label(folder, label, name)
        results[name] = answers(folder, tmp_path / f"{name}.index", encoders, tmp_path / "cache")
    stamps, found = results[kind]
    assert (stamps, found) == results["html"]
    assert set(stamps) == {"iressa", "lipitor"}
    assert all(len(drugs) == 1 for drugs in stamps.values())
    assert [labels[0].split()[0] for labels in found] == ["iressa", "iressa", "lipitor", "lipitor"]


def test_files_without_text_are_named_beside_the_labels(tmp_path: Path) -> None:
    folder = tmp_path / "f"
    for kind in FORMATS:
        write_label(folder, WORLD[0], kind)
    add_files_without_text(folder)
    report = build_index(folder, tmp_path / "index", encoders={"eagle_text": HashedWords()})
    assert {(r.kind, r.path, r.reason) for r in report.remarks} == {
        ("skipped", "broken.pdf", "broken"),
        ("skipped", "empty.html", "empty"),
        ("skipped", "scanned.pdf", "no text"),
    }


# --- real labels ----------------------------------------------------------------------------

KEPT = {
    "spl-64f8040f-938": "sildenafil",
    "spl-lipitor-orig": "atorvastatin",
    "spl-humira": "adalimumab",
    "epi-himss-metformin": "metformin",
    "epi-himss-ibuprofen": "ibuprofen",
    "epi-xenical-ema-automatic": "orlistat",
    "epi-zithromax-ema-automatic": "azithromycin",
}
QUESTIONS_OF_REAL_LABELS = [
    "Viagra dose in patients who take alpha-blockers",
    "Lipitor indications",
    "serious infections with adalimumab",
    "how to take metformin",
    "weight loss with Xenical",
    "which medicine belongs to the NSAIDs",
]


def real_labels() -> list[Label]:
    """Some labels, three sections each, cut to 450 characters of Latin-1."""
    labels = []
    for line in (DATA / "drug_labels" / "labels.jsonl").read_text("utf-8").splitlines():
        record = json.loads(line)
        if record["id"] not in KEPT:
            continue
        parts = [s for s in record["sections"] if s["title"] and len(s["text"]) > 100]
        sections = [
            LabelSection(
                _latin(part["title"]),
                _latin(part["text"][:450]),
                part["code"] or "",
                depth=2 if re.match(r"\d+\.\d", part["title"]) else 1,
            )
            for part in parts[:3]
        ]
        labels.append(Label(record["id"], _latin(record["drug"]), record["generic"], sections))
    return labels


def _latin(text: str) -> str:
    return " ".join(text.encode("latin-1", "ignore").decode("latin-1").split())


@pytest.mark.data
def test_real_labels_give_the_same_answers_in_every_format(tmp_path: Path) -> None:
    if not (DATA / "drug_labels" / "labels.jsonl").exists():
        pytest.skip("the public data sets are not here: set ASSAY_DATA")
    labels = real_labels()
    assert len(labels) >= 6
    results = {}
    for kind in FORMATS:
        for label in labels:
            write_label(tmp_path / kind, label, kind)
        results[kind] = answers(
            tmp_path / kind, tmp_path / f"{kind}.index", None, tmp_path / "cache"
        )
    stamps, found = results["html"]
    assert set(stamps) == {label.key for label in labels}
    for kind in FORMATS:
        assert results[kind][0] == stamps, kind
        ranked = [[place.split()[0] for place in labels] for labels in results[kind][1]]
        assert ranked == [[place.split()[0] for place in labels] for labels in found], kind
    first = [labels[0].split()[0] for labels in found]
    assert first[:4] == [
        *("spl-64f8040f-938", "spl-lipitor-orig", "spl-humira", "epi-himss-metformin")
    ]
