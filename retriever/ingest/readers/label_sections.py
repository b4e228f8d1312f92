"""Sections of structured drug labels, as the heading that names each.

Codes are LOINC's document section codes that the FDA uses in Structured Product Labeling; keys
are the fields of openFDA's drug label records, in the order of a label (21 CFR 201.56 and 201.57).
"""

from retriever.ingest.readers.blocks import DEEPEST, Block
from retriever.ingest.sections import known_section

__all__ = ["FIELDS", "LOINC", "heading_blocks", "label_title"]

LOINC = {
    "34066-1": "Boxed warning",
    "34067-9": "Indications and usage",
    "34068-7": "Dosage and administration",
    "43678-2": "Dosage forms and strengths",
    "34070-3": "Contraindications",
    "43685-7": "Warnings and precautions",
    "34071-1": "Warnings",
    "42232-9": "Precautions",
    "34084-4": "Adverse reactions",
    "34073-7": "Drug interactions",
    "43684-0": "Use in specific populations",
    "42228-7": "Pregnancy",
    "34081-0": "Pediatric use",
    "34082-8": "Geriatric use",
    "42227-9": "Drug abuse and dependence",
    "34088-5": "Overdosage",
    "34089-3": "Description",
    "34090-1": "Clinical pharmacology",
    "43679-0": "Mechanism of action",
    "43681-6": "Pharmacodynamics",
    "43682-4": "Pharmacokinetics",
    "43680-8": "Nonclinical toxicology",
    "34092-7": "Clinical studies",
    "34093-5": "References",
    "34069-5": "How supplied",
    "34076-0": "Patient counseling information",
}

FIELDS = {
    "boxed_warning": "Boxed warning",
    "indications_and_usage": "Indications and usage",
    "dosage_and_administration": "Dosage and administration",
    "dosage_forms_and_strengths": "Dosage forms and strengths",
    "contraindications": "Contraindications",
    "warnings_and_cautions": "Warnings and precautions",
    "warnings": "Warnings",
    "precautions": "Precautions",
    "adverse_reactions": "Adverse reactions",
    "drug_interactions": "Drug interactions",
    "use_in_specific_populations": "Use in specific populations",
    "pregnancy": "Pregnancy",
    "pediatric_use": "Pediatric use",
    "geriatric_use": "Geriatric use",
    "drug_abuse_and_dependence": "Drug abuse and dependence",
    "overdosage": "Overdosage",
    "description": "Description",
    "clinical_pharmacology": "Clinical pharmacology",
    "mechanism_of_action": "Mechanism of action",
    "pharmacodynamics": "Pharmacodynamics",
    "pharmacokinetics": "Pharmacokinetics",
    "nonclinical_toxicology": "Nonclinical toxicology",
    "clinical_studies": "Clinical studies",
    "references": "References",
    "how_supplied": "How supplied",
    "information_for_patients": "Patient counseling information",
}


def heading_blocks(title: str, coded: str, level: int, inside: str) -> tuple[list[Block], str]:
    """Return the heading of a section, and the name of the section it opens or goes on with.

    `coded` is the heading that its code stands for, "" for none; `inside` the name of the section
    around it. A title that names no known section, as "Uses", gets the coded heading above it; the
    coded one alone stands where there is no title.
    """
    said, meant = known_section(title), known_section(coded)
    if said or not meant or meant == inside:
        blocks = [Block(title, min(level, DEEPEST))] if title.strip() else []
        return blocks, said or inside
    blocks = [Block(coded, min(level, DEEPEST))]
    if title.strip():
        blocks.append(Block(title, min(level + 1, DEEPEST)))
    return blocks, meant


def label_title(brands: list[str], generics: list[str], fallback: str) -> str:
    """Return "Brand (generic)", or what there is of both, or `fallback`."""
    brand, generic = _together(brands), _together(generics)
    if brand and generic and generic.casefold() not in brand.casefold():
        return f"{brand} ({generic})"
    return brand or generic or fallback


def _together(names: list[str], at_most: int = 3) -> str:
    distinct = {" ".join(name.split()).casefold(): " ".join(name.split()) for name in names}
    return ", ".join([name for name in distinct.values() if name][:at_most])
