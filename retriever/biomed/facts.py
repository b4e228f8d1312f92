"""What the plugin knows of one query, from its text and the lexicon; every later hook reads it."""

from collections.abc import Sequence
from dataclasses import dataclass

from retriever.biomed.config import BiomedRouteConfig
from retriever.biomed.image_words import any_of
from retriever.biomed.intent import BiomedicalIntent, understand_biomedical
from retriever.biomed.lexicon import Lexicon
from retriever.encoders.molecule import parent_smiles
from retriever.types import Named

__all__ = ["Facts", "drug_names", "drug_terms", "gather", "named", "suffix_terms"]

ALIASES_EACH, PATHWAYS_EACH = 2, 1
RELATED_EACH = 6


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """One query.

    `structures` are the SMILES in its text, else those of its drugs, salts stripped;
    `own_structure` tells the two apart. `boost_drugs` are the drugs that the entity feature looks
    for: the query's, else the related drugs of its entities. `radiology` and `pathology` say that
    it asks for such images.
    """

    intent: BiomedicalIntent
    lexicon: Lexicon
    structures: tuple[str, ...]
    own_structure: bool
    boost_drugs: tuple[str, ...]
    radiology: bool
    pathology: bool


def gather(texts: Sequence[str], lexicon: Lexicon, words: BiomedRouteConfig) -> list[Facts]:
    """Return the facts of each query; `words` has the lists of words that ask for images."""
    radiology, pathology = any_of(words.radiology_words), any_of(words.pathology_words)
    return [
        _facts(intent, lexicon, bool(radiology.search(text)), bool(pathology.search(text)))
        for text, intent in zip(texts, understand_biomedical(texts, lexicon), strict=True)
    ]


def _facts(intent: BiomedicalIntent, lexicon: Lexicon, radiology: bool, pathology: bool) -> Facts:
    written = intent.smiles or tuple(
        smiles for drug in intent.drugs for smiles in lexicon.entity(drug).smiles
    )
    parents = [parent for smiles in written if (parent := parent_smiles(smiles)) is not None]
    related = (
        drug for entity in intent.entities for drug in lexicon.related(entity)[:RELATED_EACH]
    )
    return Facts(
        intent=intent,
        lexicon=lexicon,
        structures=tuple(dict.fromkeys(parents)),
        own_structure=bool(intent.smiles),
        boost_drugs=intent.drugs or tuple(dict.fromkeys(related)),
        radiology=radiology,
        pathology=pathology,
    )


def named(lexicon: Lexicon, ids: Sequence[str]) -> tuple[Named, ...]:
    """Return entities by id and name; an unknown one by what stands after its prefix."""
    return tuple(Named(i, _name(lexicon, i)) for i in ids)


def suffix_terms(facts: Facts) -> tuple[str, ...]:
    """Return what expansion may append: two aliases and a pathway of each entity, no repeats."""
    terms: list[str] = []
    for entity_id in facts.intent.entities:
        entity = facts.lexicon.entity(entity_id)
        terms += [*entity.aliases[:ALIASES_EACH], *entity.pathways[:PATHWAYS_EACH]]
    return tuple(dict.fromkeys(terms))


def drug_terms(lexicon: Lexicon, drugs: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return each drug's name with all names that stand for it in a text."""
    return {_name(lexicon, drug): drug_names(lexicon, drug) for drug in drugs}


def _name(lexicon: Lexicon, entity_id: str) -> str:
    if entity_id in lexicon:
        return lexicon.entity(entity_id).name
    return entity_id.removeprefix("name:")


def drug_names(lexicon: Lexicon, entity_id: str) -> tuple[str, ...]:
    """Return all names of a drug; a drug that only has a name has that one."""
    if entity_id in lexicon:
        return lexicon.names_of(entity_id)
    return (entity_id.removeprefix("name:"),)
