"""What a biomedical query asks for, from its text alone: the first row that fits decides.

chemical      smiles, inchi, compound, ligand, molecular formula, or a SMILES string
regulatory    drug label, prescribing information, indications and usage, dosage and administration
combination   combination, combined with, co-administered, plus; and at least two distinct drugs
drug_entity   at least one drug of the lexicon
general       otherwise

Cue phrases match in any case on word boundaries; those that are countable nouns match in the
plural too (compounds, ligands, molecular formulas, drug labels, combinations).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from retriever.biomed.lexicon import Lexicon
from retriever.biomed.smiles import smiles_tokens

__all__ = ["BiomedicalIntent", "Workflow", "understand_biomedical"]

Workflow = Literal["chemical", "regulatory", "combination", "drug_entity", "general"]


def _cues(*phrases: str) -> re.Pattern[str]:
    words = "|".join(phrase.replace(" ", r"\s+").replace("-", "[-‐‑–]") for phrase in phrases)
    return re.compile(rf"\b(?:{words})\b", re.IGNORECASE)


_CHEMICAL = _cues("smiles", "inchi", "compounds?", "ligands?", "molecular formula[se]?")
_REGULATORY = _cues(
    "drug labels?",
    "prescribing information",
    "indications and usage",
    "dosage and administration",
)
_COMBINATION = _cues("combinations?", "combined with", "co-administered", "plus")
_SECTIONS = {
    "warnings": _cues("warnings?"),
    "dosage": _cues("dosage", "dosing"),
    "indications_and_usage": _cues("indications", "usage"),
}


@dataclass(frozen=True, slots=True)
class BiomedicalIntent:
    """The intent of one query.

    `entities` and `drugs` are ids of the lexicon by first place in the text, each once: a brand
    and its generic are one drug. `smiles` are the structures written in the text. `section_cues`
    come in the order warnings, dosage, indications_and_usage.
    """

    workflow: Workflow
    suppress_collections: tuple[str, ...]
    section_cues: tuple[str, ...]
    require_entity_match: bool
    entities: tuple[str, ...]
    drugs: tuple[str, ...]
    smiles: tuple[str, ...]


def understand_biomedical(texts: Sequence[str], lexicon: Lexicon) -> tuple[BiomedicalIntent, ...]:
    """Return the intent of each query. The specification's table of workflows, row by row."""
    return tuple(_understand(text, lexicon) for text in texts)


def _understand(text: str, lexicon: Lexicon) -> BiomedicalIntent:
    entities = tuple(dict.fromkeys(match.entity_id for match in lexicon.match(text)))
    drugs = tuple(entity_id for entity_id in entities if lexicon.entity(entity_id).drug)
    smiles = smiles_tokens(text)
    workflow = _workflow(text, len(drugs), bool(smiles))
    sections = tuple(section for section, cue in _SECTIONS.items() if cue.search(text))
    return BiomedicalIntent(
        workflow=workflow,
        suppress_collections=("eagle_chemical",) if workflow == "regulatory" else (),
        section_cues=("compound",) if workflow == "chemical" else sections,
        require_entity_match=workflow != "general",
        entities=entities,
        drugs=drugs,
        smiles=smiles,
    )


def _workflow(text: str, drugs: int, has_structure: bool) -> Workflow:
    if has_structure or _CHEMICAL.search(text):
        return "chemical"
    if _REGULATORY.search(text):
        return "regulatory"
    if drugs >= 2 and _COMBINATION.search(text):
        return "combination"
    return "drug_entity" if drugs else "general"
