"""Intent and route of the source system's own queries, pinned, and every deviation explained.

`golden/eagle_routes.json` holds ids and what our retriever makes of them, no query text. A
deviation is a collection that is planned and not hinted, or hinted and not planned, where the hint
names collections at all; and the same for entities.
"""

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from worlds import HashedWords

from retriever import Retriever, build_index
from retriever.biomed.lexicon import Lexicon, load_lexicon
from retriever.encoders.molecule import MorganStructures
from retriever.hooks import Assembly

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("ASSAY_DATA", ROOT / "../shared/data")) / "eagle_queries"
GOLDEN = json.loads((ROOT / "tests/golden/eagle_routes.json").read_text("utf-8"))

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not DATA.is_dir(), reason="the source's queries are not at ASSAY_DATA"),
]


DOCUMENTS = [
    {"_id": "biomedical", "text": "A drug.", "metadata": {"domain": "biomedical"}},
    {"_id": "general", "text": "A notice.", "metadata": {"domain": "general"}},
    {"_id": "card", "text": "A card.", "metadata": {"domain": "general", "smiles": "CCO"}},
]


@cache
def queries() -> Mapping[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name in ("aligned", "smoke"):
        for line in (DATA / f"eval_queries.{name}.jsonl").read_text("utf-8").splitlines():
            record = json.loads(line)
            assert found.setdefault(record["id"], record)["query"] == record["query"]
    return found


@pytest.fixture(scope="module")
def understood(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, dict[str, Any]]:
    """What the golden file says of each query, worked out anew over a small index.

    Each collection holds a document of its own. Only routing is asked, so stand-ins encode.
    """
    folder = tmp_path_factory.mktemp("routes")
    lines = [json.dumps({"title": "", **document}) for document in DOCUMENTS]
    (folder / "corpus.jsonl").write_text("\n".join(lines), "utf-8")
    encoders: dict[str, Any] = {
        "eagle_text": HashedWords(),
        "eagle_text_biomed": HashedWords(seed=1),
        "eagle_chemical": MorganStructures(),
    }
    build_index(folder, folder / "index", encoders=encoders)
    retriever = Retriever.open(folder / "index", encoders=encoders)
    trace = retriever.trace([record["query"] for record in queries().values()])
    routing, lexicon = trace.routing, load_lexicon()
    found = {}
    for row, (query_id, record) in enumerate(queries().items()):
        assembly = trace.assemblies[row]
        searched = {
            item.collection
            for item, on in zip(routing.lists, routing.active, strict=True)
            if on[row]
        }
        found[query_id] = {
            "workflow": assembly.intent.workflow,
            "section_cues": list(assembly.intent.section_cues),
            "drugs": [drug.name for drug in assembly.drugs],
            "collections": sorted(searched),
            "deviations": deviations(assembly, sorted(searched), lexicon, record["route_hint"]),
        }
    return found


def deviations(
    assembly: Assembly, planned: Sequence[str], lexicon: Lexicon, hint: Mapping[str, Sequence[str]]
) -> list[str]:
    """Name what the hint has and we have not with a minus, and the reverse with a plus."""
    found = []
    if "collections" in hint:
        found += [f"+{name}" for name in planned if name not in hint["collections"]]
        found += [f"-{name}" for name in hint["collections"] if name not in planned]
    if "umls" in hint:
        hinted = {term: set(lexicon.entities_named(term)) for term in hint["umls"]}
        every = set().union(*hinted.values())
        ours = {entity.id for entity in assembly.entities}
        found += [f"+{entity.name}" for entity in assembly.entities if entity.id not in every]
        found += [f"-{term}" for term, ids in hinted.items() if not ids & ours]
    return found


def test_every_query_is_pinned_when_the_files_are_read() -> None:
    assert len(queries()) == 55
    assert list(GOLDEN["queries"]) == sorted(queries())


def test_intent_and_route_are_as_pinned_when_queries_are_understood(understood) -> None:
    for query_id, found in understood.items():
        pinned = GOLDEN["queries"][query_id]
        assert sorted(found.pop("deviations")) == sorted(pinned["deviations"]), query_id
        assert found == {key: pinned[key] for key in found}, query_id


def test_every_deviation_is_explained_when_listed() -> None:
    used: Counter[str] = Counter()
    for query_id, pinned in GOLDEN["queries"].items():
        for deviation, reason in pinned["deviations"].items():
            assert reason in GOLDEN["explanations"], (query_id, deviation)
            used[reason] += 1
    assert set(used) == set(GOLDEN["explanations"])


def test_no_query_text_is_copied_when_the_golden_file_is_read() -> None:
    whole = json.dumps(GOLDEN).casefold()
    assert not [q["id"] for q in queries().values() if q["query"].casefold() in whole]
