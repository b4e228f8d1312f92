"""Which documents a query's drugs name, by the registry of documents."""

from collections.abc import Sequence
from functools import partial

from retriever.biomed.config import SupplementConfig
from retriever.biomed.facts import Facts, drug_names, drug_terms
from retriever.biomed.lexicon import Lexicon
from retriever.biomed.mentions import Mentions
from retriever.biomed.routing import BIOMEDICAL_TEXT, CHEMICAL
from retriever.hooks import SupplementPlan
from retriever.index.store import Index

__all__ = ["plans"]


def plans(
    facts: Sequence[Facts], index: Index, part: SupplementConfig
) -> list[SupplementPlan | None]:
    """Return the documents of each query whose name holds any name of one of its drugs.

    Drugs are the query's; with none, the first related drugs of its first entity. The registry
    proposes by substring; the matcher decides, so that a name inside a longer word does not count.
    """
    wanted = [_drugs(of_query, part) if part.enabled else () for of_query in facts]
    if not any(wanted):
        return [None] * len(facts)
    lexicon = facts[0].lexicon
    documents = _documents(index, lexicon, sorted({drug for drugs in wanted for drug in drugs}))
    found: list[SupplementPlan | None] = []
    for of_query, drugs in zip(facts, wanted, strict=True):
        ids = tuple(dict.fromkeys(i for drug in drugs for i in documents.get(drug, ())))
        if not ids:
            found.append(None)
            continue
        if of_query.intent.workflow == "chemical":
            collections: tuple[str, ...] = (CHEMICAL,)
        else:
            collections = tuple(
                name
                for name in (BIOMEDICAL_TEXT, CHEMICAL)
                if name not in of_query.intent.suppress_collections
            )
        boost = partial(Mentions.of(index, lexicon).entity_boost, drugs)
        found.append(SupplementPlan(ids, collections, drug_terms(lexicon, drugs), boost))
    return found


def _drugs(facts: Facts, part: SupplementConfig) -> tuple[str, ...]:
    if facts.intent.drugs:
        return facts.intent.drugs
    if not facts.intent.entities:
        return ()
    return facts.lexicon.related(facts.intent.entities[0])[: part.related_drugs]


def _documents(index: Index, lexicon: Lexicon, drugs: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Ids of the documents named after each drug, in order of id."""
    names = {drug: drug_names(lexicon, drug) for drug in drugs}
    every = sorted({name for of_drug in names.values() for name in of_drug})
    by_name = index.registry.find_by_name(index.registry_id, every)
    ids = sorted({i for found in by_name.values() for i in found})
    records = index.registry.get(index.registry_id, ids)
    found = {}
    for drug, of_drug in names.items():
        proposed = sorted({i for name in of_drug for i in by_name.get(name, ())})
        found[drug] = tuple(i for i in proposed if drug in lexicon.drugs_in(records[i].name))
    return found
