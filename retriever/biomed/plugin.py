"""The biomedical plugin: the only subscriber of the namespace `biomed`."""

import hashlib
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from retriever.biomed.config import BiomedConfig
from retriever.hooks import (
    Assembly,
    Candidates,
    Catalog,
    Classification,
    Expansion,
    ImageProfile,
    MergedFeatures,
    PlanRerank,
    Profile,
    StructureChunk,
    SupplementPlan,
    hookimpl,
)
from retriever.types import Booleans, Intent, ListId

if TYPE_CHECKING:
    from retriever.biomed.facts import Facts
    from retriever.biomed.lexicon import Lexicon
    from retriever.config import Section
    from retriever.images import ImageFile
    from retriever.index.store import Index
    from retriever.ingest.chunk import Chunk, Document

__all__ = ["BiomedPlugin"]

NAME = "biomed"


class BiomedPlugin:
    """Intent, routing, expansion, filter, supplement and scoring for biomedical search."""

    name = NAME
    namespace = "biomed"
    config_model: "type[Section]" = BiomedConfig

    @property
    def version(self) -> str:
        """Digest of the plugin's own source: other code is another plugin."""
        return _code_digest()

    def knowledge(self, settings: BiomedConfig) -> str:
        """Return the fingerprints of the lexicon with its overlays, and of the image words."""
        words = (settings.route.radiology_words, settings.route.pathology_words)
        return f"{_lexicon(settings).fingerprint} {_words_digest(words)}"

    @hookimpl
    def query_assemble(self, texts: Sequence[str], settings: BiomedConfig) -> list[Assembly]:
        """Return intent, entities and drugs of each query."""
        from retriever.biomed.facts import gather, named, suffix_terms

        lexicon = _lexicon(settings)
        found = []
        for facts in gather(texts, lexicon, settings.route):
            intent = facts.intent
            found.append(
                Assembly(
                    intent=Intent(
                        intent.workflow,
                        intent.suppress_collections,
                        intent.section_cues,
                        intent.require_entity_match,
                    ),
                    entities=named(lexicon, intent.entities),
                    drugs=named(lexicon, intent.drugs),
                    suffix=suffix_terms(facts),
                    facts={NAME: facts},
                )
            )
        return found

    @hookimpl
    def classify_query(
        self,
        images: "Sequence[ImageFile | None]",
        assemblies: Sequence[Assembly],
        catalog: Catalog,
        part: Any,
    ) -> list[Classification]:
        """Return the collections of each query."""
        from retriever.biomed.routing import Router

        return Router(part, catalog).route(_facts(assemblies), images)

    @hookimpl
    def query_dense_expand(
        self, texts: Sequence[str], assemblies: Sequence[Assembly], collection: str, part: Any
    ) -> list[Expansion]:
        """Append the entities for the collections that want them; give structures to chemistry."""
        from retriever.biomed.facts import drug_terms
        from retriever.biomed.routing import CHEMICAL

        found = []
        for text, assembly, facts in zip(texts, assemblies, _facts(assemblies), strict=True):
            cues = (cue.replace("_", " ") for cue in facts.intent.section_cues)
            terms = {
                **drug_terms(facts.lexicon, facts.intent.drugs),
                **{cue: (cue,) for cue in cues},
            }
            if collection == CHEMICAL:
                found.append(Expansion(facts.structures, terms, facts.structures))
                continue
            dense = text
            if collection in part.expand_collections and assembly.suffix[: part.terms]:
                dense = f"{text} [biomed entities: {', '.join(assembly.suffix[: part.terms])}]"
            found.append(Expansion((dense,), terms, (text,)))
        return found

    @hookimpl
    def rerank(self, item: ListId, candidates: Candidates, part: Any) -> PlanRerank | None:
        """Compare text and structures anew, and keep only chunks of the query's drugs."""
        from retriever.biomed.mentions import Mentions
        from retriever.biomed.routing import BIOMEDICAL_TEXT, CHEMICAL

        if item.collection not in (BIOMEDICAL_TEXT, CHEMICAL) or item.search != "dense":
            return None
        if not part.entity_filter:
            return PlanRerank(rerank=True)
        keep: Booleans = np.ones(candidates.rows.shape, dtype=np.bool_)
        for q, facts in enumerate(_facts(candidates.assemblies)):
            drugs, intent = facts.intent.drugs, facts.intent
            if not (intent.require_entity_match and drugs):
                continue
            mentions, rows = Mentions.of(candidates.index, facts.lexicon), candidates.rows[q]
            keep[q] = mentions.entity_boost(drugs, rows) > 0
            keep[q] |= mentions.marked("head", drugs, rows)
        return PlanRerank(rerank=True, keep=keep)

    @hookimpl
    def retrieve_supplement(
        self, assemblies: Sequence[Assembly], index: "Index", part: Any
    ) -> list[SupplementPlan | None]:
        """Find the documents that the query's drugs name in the registry."""
        from retriever.biomed.supplement import plans

        return plans(_facts(assemblies), index, part)

    @hookimpl
    def rrf_post_merge(self, assemblies: Sequence[Assembly], supplemented: Booleans) -> list[bool]:
        """Inject where the intent asks for an entity and there is a supplement."""
        return [
            facts.intent.require_entity_match and bool(there)
            for facts, there in zip(_facts(assemblies), supplemented, strict=True)
        ]

    @hookimpl
    def rerank_merged(self, candidates: Candidates, part: Any) -> MergedFeatures:
        """Return features and weights of the pool."""
        from retriever.biomed.scoring import score

        return score(candidates, _facts(candidates.assemblies), part)

    @hookimpl
    def profile_document(
        self,
        documents: "Sequence[Document]",
        chunks: "Sequence[Sequence[Chunk]]",
        encode: Callable[[Sequence[str]], Any],
        part: Any,
        settings: BiomedConfig,
    ) -> list[Profile]:
        """Route each document by its domain, and give its structure to chemistry."""
        from retriever.biomed.domain import route_documents, sketch
        from retriever.biomed.routing import BIOMEDICAL_TEXT, GENERAL_TEXT, MEDCPT_TEXT

        sketches = [sketch(d, c) for d, c in zip(documents, chunks, strict=True)]
        verdicts = route_documents(sketches, encode, part, _lexicon(settings))
        found = []
        for document, verdict in zip(documents, verdicts, strict=True):
            collections = [GENERAL_TEXT]
            if verdict.domain == "biomedical":
                collections = [BIOMEDICAL_TEXT]
                collections += [MEDCPT_TEXT] if part.biomedical_also_medcpt else []
                collections += [GENERAL_TEXT] if part.biomedical_also_general else []
            structures, skipped = _structures(document)
            found.append(
                Profile(
                    tuple(collections),
                    structures,
                    verdict.domain,
                    verdict.tier,
                    verdict.rule,
                    verdict.confidence,
                    verdict.signals,
                    skipped,
                )
            )
        return found

    @hookimpl
    def enrich_chunks(
        self, documents: "Sequence[Document]", chunks: "Sequence[Chunk]", settings: BiomedConfig
    ) -> dict[str, list[list[str]]]:
        """Stamp each chunk with the drugs of its head, of its path, and of its document."""
        from retriever.biomed.mentions import path_blob, stamp
        from retriever.biomed.primary_drugs import primary_drugs

        lexicon = _lexicon(settings)
        blobs = [path_blob(d.path, d.file_name, d.name, d.source_uri) for d in documents]
        owner = [d.document_id for d in documents]
        whole = {d.document_id: d.text for d in documents}
        found = stamp([chunk.text for chunk in chunks], owner, whole, blobs, lexicon)
        about: dict[str, list[str]] = {}
        for d in documents:
            if d.document_id not in about:
                drugs = primary_drugs(d.name, d.file_name, d.title, d.text, lexicon)
                about[d.document_id] = list(drugs)
        found["primary"] = [about[d.document_id] for d in documents]
        return found

    @hookimpl
    def classify_image(
        self, documents: "Sequence[Document]", settings: BiomedConfig
    ) -> list[ImageProfile | None]:
        """Tell radiology, pathology and other images apart."""
        from retriever.biomed.images import classify_images

        return classify_images(documents, settings.route)


def _structures(document: "Document") -> tuple[tuple[StructureChunk, ...], tuple[str, ...]]:
    """Return the document's structure, its metadata's SMILES, else the first in its text.

    Also what was left out: a SMILES of the metadata that does not parse gives no structure.
    """
    from retriever.biomed.routing import CHEMICAL
    from retriever.biomed.smiles import smiles_tokens
    from retriever.encoders.molecule import parent_smiles

    given = document.metadata.get("smiles")
    written = smiles_tokens(document.text) if given in (None, "") else (given,)
    parents = (parent_smiles(smiles) for smiles in written if isinstance(smiles, str))
    first = next((parent for parent in parents if parent is not None), None)
    if first is not None:
        return (StructureChunk(CHEMICAL, "compound", first),), ()
    return (), () if given in (None, "") else ("metadata.smiles that is no structure",)


def _facts(assemblies: Sequence[Assembly]) -> "list[Facts]":
    return [assembly.facts[NAME][NAME] for assembly in assemblies]


@cache
def _code_digest() -> str:
    folder = Path(__file__).parent
    files = sorted([*folder.glob("*.py"), *folder.glob("*.yaml")])
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


@lru_cache(maxsize=16)
def _words_digest(words: tuple[tuple[str, ...], ...]) -> str:
    return hashlib.sha256(repr(words).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _lexicon(settings: BiomedConfig) -> "Lexicon":
    part = settings.lexicon
    named = [*([part.path] if part.path else []), *part.overlays]
    files = [inner for f in named for inner in (sorted(f.glob("*.RRF")) if f.is_dir() else [f])]
    stamps = tuple((str(f), f.stat().st_mtime_ns) for f in files if f.exists())
    return _loaded(part.path, part.overlays, part.variants, stamps)


@lru_cache(maxsize=16)
def _loaded(
    path: Path | None,
    overlays: tuple[Path, ...],
    spelt_otherwise: bool,
    stamps: tuple[tuple[str, int], ...],
) -> "Lexicon":
    """Load a lexicon; `stamps` makes a changed file another lexicon."""
    from retriever.biomed.lexicon import load_lexicon

    lexicon = load_lexicon(path, overlays)
    if not spelt_otherwise:
        return lexicon
    from retriever.biomed.variants import with_variants

    return with_variants(lexicon)
