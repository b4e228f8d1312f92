"""What the gold set asks for and the corpus cannot give; no change of the retriever mends it."""

from collections.abc import Iterator, Sequence

from experiments.diagnosis.causes import Cause
from experiments.diagnosis.judging import Terms
from experiments.failures import Verdict

__all__ = ["gold_causes"]

MOST = 5


def gold_causes(verdict: Verdict, absent: Sequence[str], terms: Terms | None) -> Iterator[Cause]:
    """Yield what the labels or the corpus of one failing query may have wrong.

    `absent` are its relevant units that are not in the index; `terms` what is not covered.
    """
    if absent and verdict.failure != "term_metric_strict":
        yield Cause(
            "document_not_indexed",
            "add the document to the corpus, or take the label back",
            {"absent": list(absent[:MOST]), "count": len(absent)},
            about=", ".join(absent[:MOST]),
        )
    if terms is not None and terms.impossible:
        yield Cause(
            "term_not_in_relevant_text",
            "mend the expected terms: no relevant document of the index holds these",
            {"terms": list(terms.impossible)},
            about=", ".join(terms.impossible),
        )
    if terms is not None and verdict.failure == "term_metric_strict":
        missing = [term for term in terms.missing if term not in terms.impossible]
        yield Cause(
            "term_in_another_passage",
            "the relevant document is found, the passage with these terms is not: accept synonyms "
            "as expected terms, or cut chunks larger",
            {"terms": missing},
            about=", ".join(missing),
        )
    if verdict.subclass == "too_fine":
        yield Cause(
            "label_too_fine",
            "another chunk of the document, or its duplicate, is in the top k: judge by document",
            {},
        )
