"""What the data may lack: a record of the lexicon, a structure, a section; each can be given."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cache
from typing import Any

import numpy as np

from experiments.diagnosis.causes import Case, Cause, Change
from retriever.biomed.facts import Facts
from retriever.biomed.lexicon import DRUG_SUFFIXES, Entity, Lexicon, load_lexicon
from retriever.biomed.routing import CHEMICAL
from retriever.encoders.molecule import parent_smiles

__all__ = ["data_causes"]

# A company's code for a compound: AZD9291, ZD-1839, LY2835219.
_CODE = re.compile(r"[A-Z]{2,4}-?\d{3,7}")
_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
# Semantic types, by name, of what is given to a patient.
_DRUG_TYPES = ("drug", "pharmacologic", "antibiotic", "organic chemical", "hormone", "vitamin")
MOST = 5


def data_causes(case: Case) -> Iterator[Cause]:
    """Yield what the lexicon or the corpus may lack for this query."""
    if case.verdict.failure not in ("query_route_gap", "ranking_gap", "term_metric_strict"):
        return
    facts = case.block.trace.assemblies[case.row].facts.get("biomed", {}).get("biomed")
    if facts is None:
        return
    yield from _unknown_entities(case, facts)
    yield from _unknown_aliases(case, facts)
    yield from _related_in_place(case, facts)
    yield from _lexicon_without_smiles(case, facts)
    yield from _compound_without_smiles(case, facts)
    yield from _no_section(case, facts)


# --------------------------------------------------------------------------------- the lexicon


@cache
def _bundled() -> Lexicon:
    return load_lexicon()


def _unknown_entities(case: Case, facts: Facts) -> Iterator[Cause]:
    """Yield entities of the query that the lexicon in force has no record of."""
    text, lexicon = case.query.text, facts.lexicon
    known = [(match.start, match.end) for match in lexicon.match(text)]

    def covered(start: int, end: int) -> bool:
        return any(start < b and a < end for a, b in known)

    wanted: dict[str, tuple[Mapping[str, Any], str]] = {}
    for match in _bundled().match(text):
        entity = _bundled().entity(match.entity_id)
        if _same_in(lexicon, entity) is None and not covered(match.start, match.end):
            wanted.setdefault(match.term, (_record(entity), "the bundled lexicon knows it"))
    taken = {term.casefold() for term in wanted}
    for word in _WORD.finditer(text):
        name = word.group()
        if len(name) > 5 and name.casefold().endswith(DRUG_SUFFIXES):
            why = "its name ends like a drug's"
        elif _CODE.fullmatch(name):
            why = "it is written like a compound's code"
        else:
            continue
        if covered(*word.span()) or name.casefold() in taken or _bundled().match(name):
            continue
        added = {"id": f"added:{name.casefold()}", "name": name, "is_drug": True}
        wanted.setdefault(name, (added, why))
    for term, (record, why) in list(wanted.items())[:MOST]:
        yield Cause(
            "entity_not_in_lexicon",
            f"add {term!r} to the lexicon",
            {"term": term, "why": why},
            Change(lexicon={"add": [record]}),
            about=str(record["name"]),
        )


def _unknown_aliases(case: Case, facts: Facts) -> Iterator[Cause]:
    """Yield names, in query or relevant text, that the lexicon lacks of what it knows."""
    lexicon, bundled = facts.lexicon, _bundled()
    if lexicon is bundled or lexicon.fingerprint == bundled.fingerprint:
        return
    texts = [case.query.text, *_relevant_heads(case).values()]
    found: dict[str, dict[str, None]] = {}
    for text in texts:
        for match in bundled.match(text):
            own = _same_in(lexicon, bundled.entity(match.entity_id))
            if own is not None and not lexicon.entities_named(match.term):
                found.setdefault(own, {})[match.term] = None
    for entity_id, terms in list(found.items())[:MOST]:
        entity = lexicon.entity(entity_id)
        yield Cause(
            "alias_not_in_lexicon",
            f"give {entity.name!r} the alias {', '.join(map(repr, terms))}",
            {"entity": entity_id, "aliases": list(terms)},
            Change(lexicon={"change": [{"id": entity_id, "aliases": [*entity.aliases, *terms]}]}),
            about=entity.name,
        )


def _same_in(lexicon: Lexicon, entity: Entity) -> str | None:
    """Return the id under which a lexicon knows an entity by any of its names, None for none."""
    if entity.id in lexicon:
        return entity.id
    names = (entity.name, *entity.aliases)
    return next((i for name in names for i in lexicon.entities_named(name)), None)


def _related_in_place(case: Case, facts: Facts) -> Iterator[Cause]:
    """Yield entities whose related drugs are looked for in their place."""
    if facts.intent.drugs:
        return
    for entity_id in facts.intent.entities[:MOST]:
        entity = facts.lexicon.entity(entity_id)
        if not entity.related_drugs:
            continue
        related = list(entity.related_drugs)
        if _like_a_drug(entity):
            yield Cause(
                "related_drugs_used",
                f"mark {entity.name!r} as a drug: {', '.join(related)} are looked for in its place",
                {"entity": entity_id, "related_drugs": related},
                Change(lexicon={"change": [{"id": entity_id, "is_drug": True}]}),
                about=entity.name,
            )
        elif _related_had_a_say(case):
            yield Cause(
                "related_drugs_mislead",
                f"the related drugs of {entity.name!r} are looked for: check them",
                {"entity": entity_id, "related_drugs": related},
                Change(lexicon={"change": [{"id": entity_id, "related_drugs": []}]}),
                about=entity.name,
            )


def _related_had_a_say(case: Case) -> bool:
    """Tell whether a chunk of the top k was injected, or scored for a drug it names."""
    final, row, top = case.block.trace.final, case.row, case.top_slots
    scored = case.parts.get("entity")
    return bool(
        final.injected[row, top].any() or (scored is not None and (scored[row, top] > 0).any())
    )


def _like_a_drug(entity: Entity) -> bool:
    reference = _bundled()
    known = (reference.entity(i) for i in reference.entities_named(entity.name))
    types = " ".join(entity.semantic_types).casefold()
    return (
        bool(entity.smiles)
        or entity.name.casefold().endswith(DRUG_SUFFIXES)
        or any(word in types for word in _DRUG_TYPES)
        or any(other.drug for other in known)
    )


def _record(entity: Entity) -> dict[str, Any]:
    """Return a record as an overlay holds it, without what says nothing."""
    values = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(entity).items()}
    return {name: value for name, value in values.items() if value not in ([], None)}


# ---------------------------------------------------------------------------------- structures


def _lexicon_without_smiles(case: Case, facts: Facts) -> Iterator[Cause]:
    """Yield drugs without SMILES, in a query that asks for structures."""
    bare = [drug for drug in facts.intent.drugs if not facts.lexicon.entity(drug).smiles]
    if facts.intent.smiles or not bare or not _asks_for_structures(case, facts):
        return
    for drug in bare[:MOST]:
        name = facts.lexicon.entity(drug).name
        known = [s for i in _bundled().entities_named(name) for s in _bundled().entity(i).smiles]
        carded = [
            structure
            for document, structure in _relevant_structures(case).items()
            if len(facts.intent.drugs) == 1
            or drug in facts.lexicon.drugs_in(_relevant_heads(case)[document])
        ]
        smiles = next(iter([*known, *carded]), None)
        yield Cause(
            "lexicon_without_smiles",
            f"give {name!r} its SMILES in the lexicon",
            {"drug": drug, "source": "bundled lexicon" if known else "relevant document"},
            Change(lexicon={"change": [{"id": drug, "smiles": [smiles]}]}) if smiles else None,
            about=name,
        )


def _compound_without_smiles(case: Case, facts: Facts) -> Iterator[Cause]:
    """Yield relevant documents without a structure, in a query that asks for structures."""
    units = case.judge.units
    if units.level != "document" or not _asks_for_structures(case, facts):
        return
    structured = _relevant_structures(case)
    for pair in case.missing[:MOST]:
        document = units.document_of(int(case.judged.waterfall.pairs.unit[pair]))
        if document in structured:
            continue
        given = _structure_of(case, facts, document)
        if given is None:
            continue
        smiles, source = given
        yield Cause(
            "compound_without_smiles",
            f"give the document {document} its SMILES",
            {"document_id": document, "source": source},
            Change(smiles={document: smiles}),
            about=document,
        )


def _structure_of(case: Case, facts: Facts, document: str) -> tuple[str, str] | None:
    """Return a SMILES for a document and where it is known from: its drugs, else the query."""
    head = _relevant_heads(case)[document]
    asked = facts.structures
    for lexicon in (facts.lexicon, _bundled()):
        own = [s for drug in lexicon.drugs_in(head) for s in lexicon.entity(drug).smiles]
        parents = [parent for s in own if (parent := parent_smiles(s)) is not None]
        for parent in [*(p for p in parents if p in asked), *parents]:
            return parent, "the lexicon, by a drug that the document names"
    return (asked[0], "the query's own structure") if asked else None


def _asks_for_structures(case: Case, facts: Facts) -> bool:
    routing = case.block.trace.routing
    active = (
        item.collection == CHEMICAL and routing.active[i, case.row]
        for i, item in enumerate(routing.lists)
    )
    return facts.intent.workflow == "chemical" or any(active)


def _relevant_heads(case: Case) -> dict[str, str]:
    """Return name and first chunk of each missing relevant document, by id."""
    units, chunks = case.judge.units, case.judge.index.chunks
    found = {}
    for pair in case.missing[:MOST]:
        unit = int(case.judged.waterfall.pairs.unit[pair])
        row = int(units.chunks_of(unit)[0])
        name, text = chunks.value("document_name", row), chunks.value("text", row)
        found[units.document_of(unit)] = f"{name}\n{text}"
    return found


def _relevant_structures(case: Case) -> dict[str, str]:
    """Return the structure of each missing relevant document that has one."""
    chunks = case.judge.index.chunks
    found = {}
    for document in _relevant_heads(case):
        rows = chunks.rows_of_documents([document])
        held = [structure for structure in chunks.values("structure", rows) if structure]
        if held:
            found[document] = held[0]
    return found


# ------------------------------------------------------------------------------------ sections


def _no_section(case: Case, facts: Facts) -> Iterator[Cause]:
    """Yield relevant documents without sections, in a query that asks for one."""
    cues = [cue for cue in facts.intent.section_cues if cue != "compound"]
    if not cues:
        return
    units, chunks = case.judge.units, case.judge.index.chunks
    bare: dict[str, str] = {}
    documents: list[str] = []
    for pair in case.missing[:MOST]:
        unit = int(case.judged.waterfall.pairs.unit[pair])
        rows = units.chunks_of(unit)
        ids, sections = chunks.values("chunk_id", rows), chunks.values("section", rows)
        if not np.any([bool(section) for section in sections]):
            bare |= dict.fromkeys(ids, " ".join(cues))
            documents.append(units.document_of(unit))
    if bare:
        yield Cause(
            "section_tag_missing",
            f"give the document's text its headings ({', '.join(cues)})",
            {"chunks": len(bare), "cues": cues},
            Change(sections=bare),
            about=", ".join(sorted(set(documents))),
        )
