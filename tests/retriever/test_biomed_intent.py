"""Intents of queries: the table of workflows, row by row."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever.biomed.intent import BiomedicalIntent, understand_biomedical
from retriever.biomed.lexicon import Entity, Lexicon, load_lexicon

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
LEXICON = Lexicon(
    (
        Entity("aspirin", "aspirin", ("Ecotrin",), is_drug=True),
        Entity("warfarin", "warfarin", ("Coumadin",), is_drug=True),
        Entity("MET", "MET", ("c-MET",), is_drug=False, related_drugs=("capmatinib",)),
        Entity("stroke", "stroke", is_drug=False),
    )
)
WARNINGS, DOSAGE, USAGE = "warnings", "dosage", "indications_and_usage"


@pytest.mark.parametrize(
    ("text", "workflow", "sections"),
    [
        ("aspirin SMILES", "chemical", ("compound",)),
        ("InChI=1S/C9H8O4 of aspirin", "chemical", ("compound",)),
        ("which compounds inhibit MET", "chemical", ("compound",)),
        ("Ligand of c-MET, drug label warnings", "chemical", ("compound",)),
        ("molecular  formula of aspirin", "chemical", ("compound",)),
        ("molecular formulae", "chemical", ("compound",)),
        (f"what is {ASPIRIN}?", "chemical", ("compound",)),
        ("ligandability, smilesX, inchikey and compounded interest", "general", ()),
        ("aspirin drug label", "regulatory", ()),
        ("Prescribing Information warnings and dosing", "regulatory", (WARNINGS, DOSAGE)),
        ("aspirin indications\nand usage", "regulatory", (USAGE,)),
        ("dosage and administration of aspirin plus warfarin", "regulatory", (DOSAGE,)),
        ("drug labelling rules", "general", ()),
        ("aspirin plus warfarin: warning", "combination", (WARNINGS,)),
        ("combination of Coumadin with Ecotrin", "combination", ()),
        ("aspirin co-administered with warfarin", "combination", ()),
        ("aspirin co\u2011administered with warfarin", "combination", ()),
        ("warfarin combined  with aspirin", "combination", ()),
        ("aspirin plus Ecotrin", "drug_entity", ()),
        ("aspirin with warfarin", "drug_entity", ()),
        ("surplus aspirin and warfarin", "drug_entity", ()),
        ("aspirin usage dosage warning", "drug_entity", (WARNINGS, DOSAGE, USAGE)),
        ("combination of MET and stroke", "general", ()),
        ("usage of rooms", "general", (USAGE,)),
        ("overdosages and forewarnings", "general", ()),
        ("", "general", ()),
    ],
)
def test_first_row_that_fits_decides(text: str, workflow: str, sections: tuple[str, ...]) -> None:
    (intent,) = understand_biomedical([text], LEXICON)
    assert intent.workflow == workflow
    assert intent.section_cues == sections
    assert intent.suppress_collections == (("eagle_chemical",) if workflow == "regulatory" else ())
    assert intent.require_entity_match is (workflow != "general")


def test_whole_intent_when_drugs_genes_and_a_structure_are_named() -> None:
    text = f"Coumadin, MET and {ASPIRIN}, warfarin; aspirin"
    assert understand_biomedical([text], LEXICON) == (
        BiomedicalIntent(
            workflow="chemical",
            suppress_collections=(),
            section_cues=("compound",),
            require_entity_match=True,
            entities=("warfarin", "MET", "aspirin"),
            drugs=("warfarin", "aspirin"),
            smiles=(ASPIRIN,),
        ),
    )


GOLDEN = [
    ("sunitinib prescribing information label warnings", "regulatory", ["sunitinib"]),
    (
        "sunitinib drug label indications and usage renal cell carcinoma",
        "regulatory",
        ["sunitinib"],
    ),
    ("fruquintinib molecular formula SMILES compound", "chemical", ["fruquintinib"]),
    ("InChI savolitinib MET inhibitor chemical structure", "chemical", ["savolitinib"]),
    (
        "fruquintinib sintilimab renal cell carcinoma combination",
        "combination",
        ["fruquintinib", "sintilimab"],
    ),
    (
        "savolitinib osimertinib EGFR mutant NSCLC MET amplification",
        "drug_entity",
        ["savolitinib", "osimertinib"],
    ),
    ("lenvatinib FGFR VEGFR competitor profile", "drug_entity", ["lenvatinib"]),
    ("Cabometyx vs Sutent untreated kidney cancer", "drug_entity", ["cabozantinib", "sunitinib"]),
    ("Orpathys plus Tagrisso after progression", "combination", ["savolitinib", "osimertinib"]),
    ("everolimus differentiation versus standard of care TKI", "drug_entity", ["everolimus"]),
    ("Tabrecta and capmatinib plus nothing else", "drug_entity", ["capmatinib"]),
    ("ICH E6 good clinical practice oncology trial conduct", "general", []),
    ("where can I park while the north lot is resurfaced", "general", []),
    ("MET exon 14 skipping alteration targeted therapy", "general", []),
]


@pytest.mark.parametrize(("text", "workflow", "drugs"), GOLDEN)
def test_bundled_lexicon_gives_these_intents(text: str, workflow: str, drugs: list[str]) -> None:
    (intent,) = understand_biomedical([text], load_lexicon())
    assert (intent.workflow, intent.drugs) == (workflow, tuple(f"drug:{name}" for name in drugs))


@given(st.lists(st.sampled_from([row[0] for row in GOLDEN] + ["", "aspirin"]), max_size=4))
def test_query_is_understood_alike_alone_and_in_a_batch(texts: list[str]) -> None:
    alone = tuple(understand_biomedical([text], LEXICON)[0] for text in texts)
    assert understand_biomedical(texts, LEXICON) == alone
