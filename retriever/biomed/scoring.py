"""The plugin's features of tier 2, and its rows of weights.

final = w_ce ce_norm + w_rank rank_norm + w_entity entity + w_section section
        - w_xdrug_penalty xdrug
"""

from collections.abc import Sequence

import numpy as np

from retriever.biomed.config import ProfilesConfig, ScoringConfig
from retriever.biomed.cue_hits import CueHits
from retriever.biomed.facts import Facts
from retriever.biomed.mentions import Mentions
from retriever.biomed.routing import CHEMICAL
from retriever.hooks import Candidates, MergedFeatures
from retriever.types import Floats, Integers

__all__ = ["features_of", "score"]


def score(candidates: Candidates, facts: Sequence[Facts], part: ScoringConfig) -> MergedFeatures:
    """Return the features of the pool and the weights of each query's workflow."""
    floors = ("ce", "rank", "entity", "section") if part.chemical_floor == "weighted" else ()
    return MergedFeatures(
        features=lambda: features_of(candidates, facts),
        weights=_weights(facts, part.profiles),
        floor_collection=CHEMICAL,
        floor_weights=floors,
    )


def features_of(candidates: Candidates, facts: Sequence[Facts]) -> dict[str, Floats]:
    """Return entity, section, xdrug and floor, (queries, places) each.

    entity: 1 for a chunk about a drug looked for; 0.75 where its path or its first 512 characters
    name one; else 0. section: share of the section cues found in section, path and summary. xdrug:
    1 for a chunk that is about drugs, none of them the query's, and names none of them. floor:
    1 where a chemical query's structure may carry a chunk.
    """
    shape = candidates.rows.shape
    found = {name: np.zeros(shape) for name in ("entity", "section", "xdrug", "floor")}
    for q, of_query in enumerate(facts):
        rows = candidates.rows[q]
        inside = np.flatnonzero(rows >= 0)
        if not len(inside):
            continue
        held = rows[inside]
        if of_query.boost_drugs or of_query.intent.drugs:
            mentions = Mentions.of(candidates.index, of_query.lexicon)
            found["entity"][q, inside] = _entity(mentions, of_query.boost_drugs, held)
            found["xdrug"][q, inside] = _xdrug(mentions, of_query.intent.drugs, held)
        if of_query.intent.section_cues:
            cues = of_query.intent.section_cues
            found["section"][q, inside] = CueHits.of(candidates.index).share(cues, held)
        if of_query.intent.workflow == "chemical" and of_query.structures:
            may = of_query.own_structure or found["entity"][q, inside] > 0
            found["floor"][q, inside] = np.where(may, 1.0, 0.0)
    return found


def _entity(mentions: Mentions, drugs: Sequence[str], rows: Integers) -> Floats:
    boost = mentions.entity_boost(drugs, rows)
    named = (boost == 0.5) | mentions.marked("head", drugs, rows)
    return np.where(boost == 1.0, 1.0, np.where(named, 0.75, 0.0))


def _xdrug(mentions: Mentions, drugs: Sequence[str], rows: Integers) -> Floats:
    if not drugs:
        return np.zeros(len(rows))
    named = np.zeros(len(rows), dtype=np.bool_)
    for where in ("primary", "path", "head"):
        named |= mentions.marked(where, drugs, rows)
    return np.where(mentions.has_primary(rows) & ~named, 1.0, 0.0)


def _weights(facts: Sequence[Facts], profiles: ProfilesConfig) -> dict[str, Floats]:
    workflows = [f.intent.workflow for f in facts]
    kinds = {workflow: at for at, workflow in enumerate(dict.fromkeys(workflows))}
    rows = [getattr(profiles, workflow, profiles.default) for workflow in kinds]
    of_query = [kinds[workflow] for workflow in workflows]
    columns = {
        "ce": [row.w_ce for row in rows],
        "rank": [row.w_rank for row in rows],
        "entity": [row.w_entity for row in rows],
        "section": [row.w_section for row in rows],
        "xdrug": [-row.w_xdrug_penalty for row in rows],
    }
    return {name: np.array(column)[of_query] for name, column in columns.items()}
