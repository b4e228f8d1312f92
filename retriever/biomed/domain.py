"""Biomedical or general: which text collections a document enters, decided once, in three tiers.

Tier 0 takes what the document or the configuration declares. Tier 1 fuses four signals of a short
sketch of the document. Tier 2 settles what lies within a margin of the threshold: an arbiter, a
language model behind an OpenAI-compatible chat endpoint, where one is configured, else a fixed
answer.

The shipped threshold is calibrated on labelled documents by `benchmarks/domain_threshold.py`, for
the embedded model set, the bundled lexicon, the shipped prototypes and no arbiter: verdicts change
at `threshold - margin`, so most biomedical documents are doubtful and biomedical by default. With
an arbiter take the lower threshold that it prints, which centres doubt where the domains meet.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field, field_validator

from retriever.biomed.arbiter import DOMAINS, Arbiter, ArbiterConfig, ArbiterError, Domain
from retriever.config import Section
from retriever.encoders.base import Vectors
from retriever.files import InputError
from retriever.ingest.chunk import Chunk, Document
from retriever.strict_yaml import read_yaml
from retriever.types import Floats

if TYPE_CHECKING:
    from retriever.biomed.lexicon import Lexicon

__all__ = [
    "DomainConfig",
    "DomainVerdict",
    "Rule",
    "Sketch",
    "fused_score",
    "route_documents",
    "sketch",
    "token_entropy",
]

Rule = Literal[
    "declared_by_document",
    "declared_by_configuration",
    "router_off",
    "no_text",
    "fused",
    "arbiter",
    "arbiter_failed",
    "ambiguous_default",
]

SKETCH_CHUNKS = 8
SKETCH_CHARACTERS = 8_000

_FUSED_WEIGHTS = {"prototype": 0.55, "entities": 0.25, "sections": 0.15, "entropy": 0.05}
_IMRAD = ("introduction", "methods", "results", "discussion")
_LEAST_TOKENS = 8
_WORD = re.compile(r"[^\W_]+")


@cache
def _shipped_prototypes() -> Mapping[str, tuple[str, ...]]:
    text = (resources.files("retriever.biomed") / "prototypes.yaml").read_text("utf-8")
    return {name: tuple(texts) for name, texts in read_yaml(text, "prototypes.yaml").items()}


class DomainConfig(Section):
    """How the domain of a document is decided; see the specification's document router.

    `router` off makes every document biomedical that does not declare another domain, nor
    `declared` for all of them. A fused score above `threshold + margin` is biomedical, one below
    `threshold - margin` general, anything between doubtful: `ambiguous_default` unless there is an
    arbiter.
    """

    router: bool = True
    declared: Domain | None = None
    threshold: Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)] = 0.16
    margin: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.12
    ambiguous_default: Domain = "biomedical"
    biomedical_prototypes: tuple[str, ...] = Field(
        default_factory=lambda: _shipped_prototypes()["biomedical"]
    )
    general_prototypes: tuple[str, ...] = Field(
        default_factory=lambda: _shipped_prototypes()["general"]
    )
    arbiter: ArbiterConfig = ArbiterConfig()

    @field_validator("biomedical_prototypes", "general_prototypes")
    @classmethod
    def _prototypes_have_text(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        if not texts or not all(text.strip() for text in texts):
            raise ValueError("give at least one prototype text, and none that is blank")
        return texts


@dataclass(frozen=True, slots=True)
class Sketch:
    """What the router reads of a document.

    `sections` are the names of its sections, each once, in order; `declared` is the domain that
    its metadata names.
    """

    document_id: str
    text: str
    sections: tuple[str, ...] = ()
    declared: Domain | None = None


@dataclass(frozen=True, slots=True)
class DomainVerdict:
    """The domain of one document and what decided it.

    `confidence`, in [0, 1], is 1 for what was declared, 0.5 for a default, the arbiter's own
    figure, or, by the fused score, 0.5 plus its distance from the threshold: an order, not a
    probability. `signals` is empty where the text was not read, else it holds the two cosines,
    the four signals and `fused`. `detail` says why an arbiter failed.
    """

    domain: Domain
    tier: Literal[0, 1, 2]
    rule: Rule
    confidence: float
    signals: Mapping[str, float] = field(default_factory=dict, hash=False)
    detail: str = ""


def sketch(document: Document, chunks: Sequence[Chunk]) -> Sketch:
    """Sketch a document from all its chunks, in order.

    The text is the summaries, each once, then the first 8 chunks, a line each, cut at 8,000
    characters. Raises InputError when `metadata.domain` is neither biomedical nor general.
    """
    summaries = dict.fromkeys(chunk.content_summary for chunk in chunks if chunk.content_summary)
    lines = [*summaries, *(chunk.text for chunk in chunks[:SKETCH_CHUNKS])]
    names = dict.fromkeys(name for chunk in chunks for name in chunk.section.split())
    return Sketch(
        document_id=document.document_id,
        text="\n".join(lines)[:SKETCH_CHARACTERS],
        sections=tuple(names),
        declared=_declared(document),
    )


def _declared(document: Document) -> Domain | None:
    value = document.metadata.get("domain")
    if value is None or value == "":
        return None
    for domain in DOMAINS:
        if isinstance(value, str) and value.strip().casefold() == domain:
            return domain
    raise InputError(
        f"metadata.domain of document {document.document_id!r} is {value!r}",
        fix="biomedical or general, or rename the key where it means something else",
    )


def route_documents(
    sketches: Sequence[Sketch],
    encode: Callable[[Sequence[str]], Vectors],
    settings: DomainConfig,
    lexicon: "Lexicon",
) -> list[DomainVerdict]:
    """Return the verdict on each sketch, in order.

    `encode` gives the vectors (n, d) of document texts. It is called once, and not at all when
    nothing has to be read. A document that declares its domain keeps it whatever the configuration
    declares for all. One without text is left to `ambiguous_default`. So is one on which an arbiter
    fails (unreachable, too slow, another answer than asked for), under the rule `arbiter_failed`
    and with the reason in `detail`; after three failures in a row it is not asked again in this
    call, and the rest has that rule too. Raises InputError when the environment lacks its key.
    """
    verdicts = {}
    unread = []
    for row, item in enumerate(sketches):
        verdict = _without_reading(item, settings)
        if verdict is None:
            unread.append(row)
        else:
            verdicts[row] = verdict
    if unread:
        arbiter = Arbiter(settings.arbiter) if settings.arbiter.url else None
        signals = _signals([sketches[row] for row in unread], encode, settings, lexicon)
        for row, found in zip(unread, signals, strict=True):
            verdicts[row] = _by_score(found, settings) or _doubtful(
                sketches[row].text, found, settings, arbiter
            )
    return [verdicts[row] for row in range(len(sketches))]


def _without_reading(item: Sketch, settings: DomainConfig) -> DomainVerdict | None:
    if item.declared is not None:
        return DomainVerdict(item.declared, 0, "declared_by_document", 1.0)
    if settings.declared is not None:
        return DomainVerdict(settings.declared, 0, "declared_by_configuration", 1.0)
    if not settings.router:
        return DomainVerdict("biomedical", 0, "router_off", 0.5)
    if not item.text.strip():
        return DomainVerdict(settings.ambiguous_default, 2, "no_text", 0.5)
    return None


def _by_score(signals: Mapping[str, float], settings: DomainConfig) -> DomainVerdict | None:
    above = signals["fused"] - settings.threshold
    # Without the rounding a score exactly on the margin would fall on a side by its last bit.
    if round(abs(above), 12) <= settings.margin:
        return None
    domain: Domain = "biomedical" if above > 0 else "general"
    return DomainVerdict(domain, 1, "fused", min(1.0, 0.5 + abs(above)), signals)


def _doubtful(
    text: str, signals: Mapping[str, float], settings: DomainConfig, arbiter: Arbiter | None
) -> DomainVerdict:
    default = settings.ambiguous_default
    if arbiter is None:
        return DomainVerdict(default, 2, "ambiguous_default", 0.5, signals)
    try:
        answer = arbiter.ask(text)
    except ArbiterError as error:
        return DomainVerdict(default, 2, "arbiter_failed", 0.5, signals, str(error))
    return DomainVerdict(answer.domain, 2, "arbiter", answer.confidence, signals)


def fused_score(signals: Mapping[str, float]) -> float:
    """Return `0.55 prototype + 0.25 entities + 0.15 sections + 0.05 entropy`, to 12 decimals.

    The specification's tier 1; `prototype` lies in [-1, 1], the others in [0, 1].
    """
    return round(sum(weight * signals[name] for name, weight in _FUSED_WEIGHTS.items()), 12)


def token_entropy(text: str) -> float:
    """Return the Shannon entropy, in bits, of the words of `text` in lower case.

    0 where there are fewer than 8 words, too few to tell a text from a list of names.
    """
    counts = Counter(_WORD.findall(text.casefold()))
    total = counts.total()
    if total < _LEAST_TOKENS:
        return 0.0
    return sum(n * math.log2(total / n) for n in counts.values()) / total


def _signals(
    sketches: Sequence[Sketch],
    encode: Callable[[Sequence[str]], Vectors],
    settings: DomainConfig,
    lexicon: "Lexicon",
) -> list[dict[str, float]]:
    """Return the two cosines, the four signals and the fused score of each sketch."""
    biomedical, general = settings.biomedical_prototypes, settings.general_prototypes
    vectors = encode([*biomedical, *general, *(item.text for item in sketches)])
    split = len(biomedical)
    prototypes = np.stack([_unit(row) for row in vectors[: split + len(general)]])
    found = []
    for item, row in zip(sketches, vectors[len(prototypes) :], strict=True):
        # Row by row, so that what else is in the batch never reaches a cosine.
        cosines = np.round(np.maximum((prototypes * _unit(row)).sum(axis=1), 0), 6)
        near_biomedical, near_general = cosines[:split].max(), cosines[split:].max()
        entities = {match.entity_id for match in lexicon.match(item.text)}
        signals = {
            "biomedical_cosine": float(near_biomedical),
            "general_cosine": float(near_general),
            "prototype": round(float(near_biomedical - near_general), 6),
            "entities": min(1.0, len(entities) / math.sqrt(len(item.text))),
            "sections": min(1.0, len(set(_IMRAD).intersection(item.sections)) / 3),
            "entropy": min(1.0, token_entropy(item.text) / 5),
        }
        found.append({**signals, "fused": fused_score(signals)})
    return found


def _unit(vector: Vectors) -> Floats:
    row = vector.astype(np.float64)
    return row / (np.linalg.norm(row) or 1.0)
