"""The drugs a document is about, stamped once at ingest so that scoring rescans nothing."""

from collections import Counter

from retriever.biomed.annotation import annotate
from retriever.biomed.lexicon import Lexicon

__all__ = ["primary_drugs"]


def primary_drugs(
    name: str, file_name: str, title: str, text: str, lexicon: Lexicon
) -> tuple[str, ...]:
    """Return the ids of the drugs that a document is about, by first place.

    The drugs in its name, file name or title; if none, those with at least half of all mentions of
    drugs in `text`, the whole text of the document (so two at most); else none. An interaction
    list of many drugs therefore makes a document about none of them. An abbreviation that the text
    defines counts as a mention. The specification's rule for `primary_drugs`.
    """
    named = (drug for part in (name, file_name, title) for drug in _mentions(part, lexicon))
    if drugs := tuple(dict.fromkeys(named)):
        return drugs
    counts = Counter(_mentions(text, lexicon))
    return tuple(drug for drug, n in counts.items() if 2 * n >= counts.total())


def _mentions(text: str, lexicon: Lexicon) -> list[str]:
    """Return the drug of each mention, in order, repeats kept."""
    ids = (match.entity_id for match in annotate(lexicon, text))
    return [entity_id for entity_id in ids if lexicon.entity(entity_id).drug]
