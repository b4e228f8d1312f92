"""The router as shipped, with the real embedded model and the bundled lexicon."""

import pytest

from retriever.biomed.domain import DomainConfig, DomainVerdict, route_documents, sketch
from retriever.biomed.lexicon import load_lexicon
from retriever.encoders.base import TextEncoder
from retriever.ingest.chunk import Document, chunk_documents
from retriever.retriever import open_encoders

BIOMEDICAL = {
    "label": "INDICATIONS AND USAGE\nOsimertinib is indicated for adults with lung cancer "
    "whose tumours carry an EGFR mutation.\nDOSAGE AND ADMINISTRATION\n80 mg once daily with or "
    "without food.\nWARNINGS\nInterstitial lung disease, QT prolongation, cardiomyopathy.",
    "abstract": "BACKGROUND: Metformin lowers hepatic glucose output. METHODS: We randomised 120 "
    "patients with type 2 diabetes to metformin or placebo. RESULTS: HbA1c fell by 1.1 per cent. "
    "CONCLUSIONS: Metformin improved glycaemic control without weight gain.",
    "leaflet": "Ask your pharmacist before you take ibuprofen with blood pressure tablets. Stop "
    "and see a doctor if you notice black stools or swelling of the face.",
}
GENERAL = {
    "car park": "The car park behind the main building is closed next week for resurfacing. Please "
    "use the street or take the tram; bicycles can stay in the cellar.",
    "expenses": "Claims for hotel and train costs must reach accounts payable within thirty days, "
    "with the receipts. First class needs the consent of the head of department.",
    "minutes": "The steering group met on 3 June. The budget for the new website was approved, the "
    "launch moved to the autumn, and Ms Ortega will write to the agency.",
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> TextEncoder:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_STORE", str(tmp_path_factory.mktemp("store")))
        return open_encoders("embedded")["eagle_text"]


@pytest.fixture(scope="module")
def verdicts(encoder: TextEncoder) -> dict[str, DomainVerdict]:
    texts = {**BIOMEDICAL, **GENERAL}
    documents = [Document(name, "", text, {}, name=name) for name, text in texts.items()]
    chunks = list(chunk_documents(documents, encoder.token_spans))
    sketches = [
        sketch(one, [chunk for chunk in chunks if chunk.document_id == one.document_id])
        for one in documents
    ]
    found = route_documents(sketches, encoder.encode_documents, DomainConfig(), load_lexicon())
    return dict(zip(texts, found, strict=True))


@pytest.mark.parametrize("name", BIOMEDICAL)
def test_medical_texts_are_biomedical(verdicts: dict[str, DomainVerdict], name: str) -> None:
    assert verdicts[name].domain == "biomedical"


@pytest.mark.parametrize("name", GENERAL)
def test_corporate_texts_are_general_by_their_score(
    verdicts: dict[str, DomainVerdict], name: str
) -> None:
    assert (verdicts[name].domain, verdicts[name].rule) == ("general", "fused")


def test_every_medical_text_scores_above_every_corporate_one(
    verdicts: dict[str, DomainVerdict],
) -> None:
    fused = {name: verdict.signals["fused"] for name, verdict in verdicts.items()}
    assert min(fused[name] for name in BIOMEDICAL) > max(fused[name] for name in GENERAL) + 0.1


def test_entities_and_sections_are_seen_when_the_text_has_them(
    verdicts: dict[str, DomainVerdict],
) -> None:
    assert verdicts["label"].signals["entities"] > 0
    assert verdicts["abstract"].signals["sections"] == pytest.approx(1)
    assert verdicts["car park"].signals["entities"] == 0
