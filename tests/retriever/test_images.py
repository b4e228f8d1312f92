"""Images: where they go at ingest, how a query finds them, and their places in the ranking.

Encoders are stand-ins: an "image" is a file of words. So a query image with the words of a stored
one has cosine 1 with it, and dense = (1 + 1) / 2 = 1.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from image_worlds import (
    PATHOLOGY,
    RADIOLOGY,
    TEXT,
    VISUAL,
    image_encoders,
    open_image_world,
    write_documents,
    write_images,
)
from stage_worlds import config_of, open_world

from retriever import Query, Retriever, RetrieverConfig, build_index
from retriever.biomed.config import BiomedRouteConfig
from retriever.biomed.images import classify_images
from retriever.config import TrimConfig
from retriever.explain import explain
from retriever.files import InputError
from retriever.ingest.chunk import Document
from retriever.ingest.corpus import Corpus
from retriever.pipeline import Trace
from retriever.stages.inject import Injected
from retriever.stages.trim import place_images
from retriever.types import FinalScores, Ranking, Reranked, Scope

IMAGES = {
    "img/xray.png": "lung shadow left",
    "img/slide.png": "purple cells nuclei",
    "img/graph.png": "survival curve plot",
}
DOCUMENTS: list[dict[str, Any]] = [
    {"_id": "x", "text": "Chest radiograph of a lung", "image": "img/xray.png"},
    {"_id": "s", "text": "Biopsy, H&E stain", "image": "img/slide.png"},
    {"_id": "g", "text": "Survival curve", "image": "img/graph.png"},
    {"_id": "t1", "text": "lung shadow in a report"},
    {"_id": "t2", "text": "survival of patients"},
    {"_id": "t3", "text": "lung disease"},
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    folder = tmp_path_factory.mktemp("images")
    return open_image_world(folder, DOCUMENTS, IMAGES, {"trim.final_top_k": 20})


def image_of(world: Retriever, name: str) -> Path:
    return world.index.path.parent / "corpus" / "img" / name


def with_sets(world: Retriever, **sets: Any) -> Retriever:
    named = {key.replace("__", "."): value for key, value in sets.items()}
    return world.with_config(world.config.with_overrides(named))


def collections(world: Retriever, query: Query | str) -> set[str]:
    trace = world.trace([query])
    return {
        item.collection
        for i, item in enumerate(trace.routing.lists)
        if item.search == "dense" and trace.routing.active[i, 0]
    }


# ------------------------------------------------------------------------------- at ingest


def document(text: str, image: str = "a.png", **metadata: Any) -> Document:
    return Document("d", "", text, {"image": image, **metadata}, "d")


@pytest.mark.parametrize(
    ("given_", "modality"),
    [
        (document("Chest X-ray of the lung"), "radiology"),
        (document("Two CT scans"), "radiology"),
        (document("Histology of the lung"), "pathology"),
        (document("An H&E slide"), "pathology"),
        (document("Active transport"), "visual"),  # CT is no part of a word
        (document("", image="scans/ct_chest-01.png"), "radiology"),
        (document("", image="whole-slide/7.png"), "pathology"),
        (document("", image="7.png"), "visual"),
        # one word of radiology, two of pathology
        (document("CT-guided biopsy, immunohistochemistry"), "pathology"),
        (document("biopsy biopsy CT MRI"), "radiology"),  # a word counts once
        (document("biopsy after MRI"), "pathology"),  # one each: the first decides
        (document("MRI before biopsy"), "radiology"),
        (document("Chest X-ray", modality="pathology"), "pathology"),
        (document("Chest X-ray", modality=" Visual "), "visual"),
        (document("Chest X-ray", modality=""), "radiology"),
    ],
)
def test_modality_is_declared_or_follows_from_the_words(given_: Document, modality: str) -> None:
    (found,) = classify_images([given_], BiomedRouteConfig())
    assert found is not None
    assert found.modality == modality
    named = {"radiology": RADIOLOGY, "pathology": PATHOLOGY, "visual": VISUAL}
    assert found.collection == named[modality]


def test_modality_follows_the_configured_words() -> None:
    words = BiomedRouteConfig(radiology_words=("film",), pathology_words=())
    found = classify_images([document("a film"), document("biopsy")], words)
    assert [image.modality for image in found if image] == ["radiology", "visual"]


@pytest.mark.parametrize("modality", ["CT", 7, ["visual"]])
def test_modality_is_refused_when_it_is_none_of_the_three(modality: object) -> None:
    with pytest.raises(InputError, match=r"metadata\.modality of document 'd'.*radiology, path"):
        classify_images([document("x", modality=modality)], BiomedRouteConfig())


def test_image_stands_beside_its_caption_in_a_collection_of_its_own(world: Retriever) -> None:
    index = world.index
    held = {n: r.chunks for n, r in index.manifest.collections.items() if r.images}
    assert held == {RADIOLOGY: 1, PATHOLOGY: 1, VISUAL: 1}
    row = index.chunks.chunk_ids.index("x#image")
    assert index.collections[RADIOLOGY].rows.tolist() == [row]
    assert index.chunks.value("image", row) == "img/xray.png"
    assert index.chunks.value("text", row) == "Chest radiograph of a lung"
    assert index.is_image is not None
    assert index.is_image.sum() == 3
    # The captions are text like any other: six documents, six chunks of text.
    assert index.manifest.collections[TEXT].chunks == 6
    records = index.registry.get(index.registry_id, ["x", "s", "g", "t1"])
    assert [r.modality for r in records.values()] == ["radiology", "pathology", "visual", "text"]
    assert records["x"].collections == (RADIOLOGY, TEXT)


def test_image_is_skipped_and_counted_when_no_encoder_reads_it(tmp_path: Path) -> None:
    corpus = write_documents(tmp_path / "corpus", [*DOCUMENTS, {**DOCUMENTS[0], "_id": "x2"}])
    write_images(corpus, IMAGES)
    config, encoders = config_of(tmp_path), image_encoders()
    # eagle_visual has a model of texts, which does not serve for images.
    served = {TEXT: encoders[TEXT], "eagle_text": encoders["eagle_text"], VISUAL: encoders[TEXT]}
    report = build_index(corpus, tmp_path / "index", config, encoders=served)
    assert report.index.manifest.skipped == {
        "no encoder for eagle_medical_pathology in the model set embedded": 1,
        "no encoder for eagle_medical_radiology in the model set embedded": 2,
        "the encoder of eagle_visual in the model set embedded reads no images": 1,
    }
    assert report.index.is_image is None
    found = Retriever.open(report.index, config, encoders=served).search("radiograph")
    assert found.hits[0].document_id == "x"
    assert found.hits[0].image == ""


def test_skipped_images_are_shown_by_the_command(assay, tmp_path: Path) -> None:
    corpus = write_documents(tmp_path / "corpus", [DOCUMENTS[0], {**DOCUMENTS[2], "smiles": "C1C"}])
    write_images(corpus, IMAGES)
    shown = assay("index", corpus, "-o", tmp_path / "index").out.splitlines()
    assert "skipped, no encoder for eagle_medical_radiology in the model set embedded: 1" in shown
    assert "skipped, no encoder for eagle_visual in the model set embedded: 1" in shown
    assert "skipped, metadata.smiles that is no structure: 1" in shown
    found = json.loads(assay("index", corpus, "-o", tmp_path / "index", "--json").out)
    assert sum(found["skipped"].values()) == 3


def test_image_without_a_caption_is_found_by_image(tmp_path: Path) -> None:
    documents = [{"_id": "bare", "text": "", "image": "bare.png"}, DOCUMENTS[3]]
    world = open_image_world(tmp_path, documents, {"bare.png": "grey noise"})
    assert world.index.chunks.document_ids == ["bare", "t1"]
    path = tmp_path / "corpus" / "bare.png"
    (hit,) = world.search(Query("", image=path)).hits
    assert (hit.document_id, hit.image, hit.text, hit.collection) == (
        "bare",
        "bare.png",
        "",
        VISUAL,
    )


def test_corpus_of_images_alone_is_refused_when_nothing_reads_them(tmp_path: Path) -> None:
    corpus = write_documents(tmp_path / "c", [{"_id": "b", "text": "", "image": "b.png"}])
    write_images(corpus, {"b.png": "noise"})
    encoders = {"eagle_text": image_encoders()["eagle_text"]}
    for namespace, reason in (("biomed", "no encoder for eagle_visual"), ("general", "places an")):
        config = RetrieverConfig(namespace=namespace)
        with pytest.raises(InputError, match=f"nothing to index .*{reason}"):
            build_index(corpus, tmp_path / "i", config, encoders=encoders)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ("absent.png", "document 'x': the image .*absent.png' cannot be read: No such file"),
        (".", "document 'x': the image .* cannot be read: Is a directory"),
        (7, r"metadata\.image of document 'x' is 7"),
    ],
)
def test_image_is_refused_when_it_cannot_be_read(
    tmp_path: Path, image: object, message: str
) -> None:
    corpus = write_documents(tmp_path / "c", [{"_id": "x", "text": "radiograph", "image": image}])
    with pytest.raises(InputError, match=message):
        build_index(corpus, tmp_path / "i", config_of(tmp_path), encoders=image_encoders())
    assert not (tmp_path / "i").exists()


def test_document_is_skipped_when_a_folder_lacks_its_image(tmp_path: Path) -> None:
    folder = tmp_path / "f"
    folder.mkdir()
    lines = [
        {"_id": "here", "text": "a radiograph", "metadata": {"image": "a.png"}},
        {"_id": "gone", "text": "a scan", "metadata": {"image": "absent.png"}},
        {"_id": "odd", "text": "a graph", "metadata": {"image": 7}},
        {"_id": "none", "text": "lung disease"},
    ]
    (folder / "a.png").write_text("lung shadow")
    (folder / "some.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    reading = Corpus(folder).read()
    assert [one.document_id for one in reading.documents] == ["a.png", "here", "none"]
    assert [(one.path, one.reason) for one in reading.remarks] == [("some.jsonl", "broken")] * 2
    assert "the image 'absent.png' cannot be read: No such file" in reading.remarks[0].detail
    assert "metadata.image of document 'odd' is 7" in reading.remarks[1].detail
    report = build_index(folder, tmp_path / "i", config_of(tmp_path), encoders=image_encoders())
    assert report.index.manifest.skipped == {"broken": 2}
    with pytest.raises(InputError, match=r"some\.jsonl:2: document 'gone': the image"):
        Corpus(folder / "some.jsonl").read()


def test_index_is_built_anew_when_an_image_changes(tmp_path: Path) -> None:
    corpus = write_documents(tmp_path / "c", DOCUMENTS)
    write_images(corpus, IMAGES)
    config, cache = config_of(tmp_path), tmp_path / "cache"

    def build() -> Any:
        return build_index(corpus, tmp_path / "i", config, encoders=image_encoders(), cache=cache)

    assert build().built
    assert not build().built
    write_images(corpus, {"img/graph.png": "another plot"})
    again = build()
    # That one image is read again, by its content; everything else is in the cache.
    assert (again.built, again.computed) == (True, 1)


def test_image_file_of_a_folder_is_a_document(tmp_path: Path) -> None:
    write_images(tmp_path, {"scans/ct_1.png": "a plot"})
    (found,) = Corpus(tmp_path).read().documents
    assert (found.document_id, found.path, found.text) == ("scans/ct_1.png", "scans/ct_1.png", "")
    assert (found.name, found.file_name, found.metadata) == (
        "ct_1.png",
        "ct_1.png",
        {"image": "scans/ct_1.png"},
    )


# --------------------------------------------------------------------------------- routing


@pytest.mark.parametrize(
    ("text", "image", "mode", "expected"),
    [
        ("survival", None, "hybrid", {TEXT}),
        ("survival", "graph.png", "hybrid", {TEXT, VISUAL}),
        ("survival", None, "visual", {TEXT, VISUAL}),
        ("lung MRI", None, "hybrid", {TEXT, RADIOLOGY}),
        ("lung MRI", "xray.png", "hybrid", {TEXT, RADIOLOGY, VISUAL}),
        ("histology", None, "hybrid", {TEXT}),  # its encoder has no text tower
        ("histology", "slide.png", "hybrid", {TEXT, PATHOLOGY, VISUAL}),
        ("histology MRI", "slide.png", "text", {TEXT}),
    ],
)
def test_image_collections_are_those_of_the_list(
    world: Retriever, text: str, image: str | None, mode: str, expected: set[str]
) -> None:
    there = with_sets(world, plugins__biomed__route__mode=mode)
    query = Query(text, image=image and image_of(world, image))
    assert collections(there, query) == expected
    events = [event.event for event in there.trace([query]).audit]
    assert ("query_image_unused" in events) == (image is not None and mode == "text")


def test_query_image_is_noted_when_nothing_can_be_compared_with_it(
    world: Retriever, tmp_path: Path
) -> None:
    plain = open_world(tmp_path, DOCUMENTS[3:])
    trace = plain.trace([Query("lung", image=image_of(world, "xray.png")), "lung"])
    noted = {(e.event, e.detail.get("collection")) for e in trace.audit_of(0)}
    assert noted >= {("query_image_unused", None), ("route_skipped_collection", VISUAL)}
    assert "query_image_unused" not in {e.event for e in trace.audit_of(1)}
    # Tier 2 goes on as without the image.
    assert trace.final.order[0].tolist() == trace.final.order[1].tolist()


def test_words_of_images_are_part_of_what_the_memo_remembers(world: Retriever) -> None:
    assert collections(world, "a film of the lung") == {TEXT}
    words = with_sets(world, plugins__biomed__route__radiology_words=["film"])
    assert collections(words, "a film of the lung") == {TEXT, RADIOLOGY}


# --------------------------------------------------------------------------------- search


def plan(world: Retriever, query: Query | str, collection: str) -> dict[str, Any]:
    found = explain(world, world.trace([query]))
    (one,) = (p for p in found["plans"] if p["collection"] == collection)
    return one


def test_image_is_found_by_an_image(world: Retriever, tmp_path: Path) -> None:
    write_images(tmp_path, {"other.png": "purple cells nuclei"})  # the words of slide.png
    query = Query("histology", image=tmp_path / "other.png")
    one = plan(world, query, PATHOLOGY)
    assert one["dense_query"] == str(tmp_path / "other.png")
    (hit,) = one["hits"]
    assert (hit["source_chunk_id"], hit["dense"]) == ("s#image", 1.0)


def test_image_is_found_by_text_when_the_encoder_has_a_text_tower(world: Retriever) -> None:
    visual = with_sets(world, plugins__biomed__route__mode="visual")
    one = plan(visual, "survival curve plot", VISUAL)
    assert one["dense_query"] == "survival curve plot"
    (hit,) = one["hits"]
    assert (hit["source_chunk_id"], hit["dense"]) == ("g#image", 1.0)


def test_image_collection_gives_nothing_when_text_meets_no_text_tower(world: Retriever) -> None:
    query = Query("cells", scope=Scope(document_ids=("s",)))
    one = plan(world, query, PATHOLOGY)  # searched, since the scope's document is in it
    assert (one["dense_query"], one["hits"]) == (None, [])


def test_query_image_takes_the_place_of_the_text(world: Retriever) -> None:
    # By its text this query would be far from the curve; by its image it is at it.
    query = Query("unrelated words", image=image_of(world, "graph.png"))
    assert plan(world, query, VISUAL)["hits"][0]["dense"] == 1.0


def test_search_follows_the_content_when_a_query_image_changes(
    world: Retriever, tmp_path: Path
) -> None:
    place = tmp_path / "q.png"
    dense = []
    for words in ("survival curve plot", "grey noise"):
        place.write_text(words)
        dense.append(plan(world, Query("", image=place), VISUAL)["hits"][0]["dense"])
    assert dense[0] == 1.0 > dense[1]


def test_query_image_is_refused_when_it_is_not_there(world: Retriever) -> None:
    with pytest.raises(InputError, match=r"the image .*no\.png' cannot be read"):
        world.search(Query("lung", image="no.png"))


def test_memo_gives_the_same_as_nothing_when_queries_have_images(world: Retriever) -> None:
    queries = [
        Query("lung MRI", image=image_of(world, "xray.png")),
        Query("lung MRI", image=image_of(world, "slide.png")),
        Query("lung MRI"),
        Query("", image=image_of(world, "graph.png")),
    ]
    trace = world.trace(queries)
    together = [told(world, trace, row) for row in range(len(queries))]
    assert together[0] != together[1] != together[2]
    bare = world.without_memory()
    for query, expected in zip(queries, together, strict=True):
        assert told(world, world.trace([query])) == expected
        assert told(bare, bare.trace([query])) == expected


def told(world: Retriever, trace: Trace, row: int = 0) -> dict[str, Any]:
    """All that an explanation says, but for the time it took."""
    return {k: v for k, v in explain(world, trace, row).items() if k != "timings_ms"}


# ------------------------------------------------------------------------------- tier 2


class SeesTexts:
    """A stand-in cross-encoder that notes what it is given; the longest text is best."""

    name = "stand-in-cross-encoder"
    fingerprint = "0" * 64

    def __init__(self) -> None:
        self.seen: list[str] = []

    def logits(self, query: str, texts: Sequence[str]) -> Any:
        self.seen += texts
        return np.array([float(len(text)) for text in texts])


def documents_shown(world: Retriever, query: Query | str) -> list[str]:
    return [hit.chunk_id for hit in world.search(query).hits]


def test_images_take_no_place_in_the_pool_and_follow_the_text(tmp_path: Path) -> None:
    cross = SeesTexts()
    world = open_image_world(
        tmp_path, DOCUMENTS, IMAGES, {"trim.final_top_k": 20}, {"domain": cross}
    )
    # Radiology is searched by text: one image among six texts.
    found = explain(world, world.trace(["lung shadow left on MRI"]))
    merged = {hit["chunk_id"]: hit for hit in found["merged"]}
    assert merged["x#image"]["pool"] is False
    assert sum(hit["pool"] for hit in merged.values()) == len(merged) - 1 == 6
    shown = [hit["chunk_id"] for hit in found["results"]]
    assert shown[-1] == "x#image"
    assert found["results"][-1]["image"] == "img/xray.png"
    # Its caption was read once, as text, and not again as the image's.
    assert cross.seen.count("Chest radiograph of a lung") == 1
    # The pool's size counts texts alone: the image came first of the merged list.
    small = with_sets(world, inject__rerank_pool=2)
    found = explain(small, small.trace(["lung shadow left on MRI"]))
    pool = [hit["chunk_id"] for hit in found["merged"] if hit["pool"]]
    texts = [hit["chunk_id"] for hit in found["merged"] if hit["chunk_id"] != "x#image"]
    assert pool == texts[:2]


def test_slots_are_kept_for_images_when_asked(world: Retriever) -> None:
    text = "lung shadow left on MRI"
    plain = documents_shown(with_sets(world, trim__final_top_k=3), text)
    assert "x#image" not in plain
    kept = with_sets(world, trim__final_top_k=3, trim__image_slots=2)
    # One image was found: it takes one of the two slots, and text the other.
    assert documents_shown(kept, text) == [*plain[:2], "x#image"]
    # A run keeps the same order at any depth.
    trace = kept.trace([text])
    order = [kept.index.chunks.chunk_ids[row] for row in trace.slots.chunk[0, trace.final.order[0]]]
    assert order[:4] == [*plain[:2], "x#image", plain[2]]


@pytest.mark.parametrize("policy", [None, "none"])
def test_merged_order_stands_when_the_query_looks_for_images(
    world: Retriever, policy: str | None
) -> None:
    queries = {
        "hybrid": Query("lung shadow left on MRI", image=image_of(world, "xray.png")),
        "visual": Query("lung shadow left on MRI"),
    }
    for mode, query in queries.items():
        there = with_sets(
            world,
            plugins__biomed__route__mode=mode,
            rerank_merged__rerank_policy=policy,
            trim__image_slots=1,
        )
        found = explain(there, there.trace([query]))
        merged = [hit["chunk_id"] for hit in found["merged"]]
        assert [hit["chunk_id"] for hit in found["reranked"]] == merged
        assert not any(hit["pool"] for hit in found["merged"]) or policy == "none"
        assert [h["score"] for h in found["reranked"]] == [h["score"] for h in found["merged"]]
        events = [event["event"] for event in found["audit"]]
        assert "rerank_t2_passthrough" in events
        assert "rerank_t2_domain" not in events


def ranking(images: list[bool], retrieved: int) -> tuple[Reranked, Injected]:
    """One query whose slots are ordered as they stand."""
    width = len(images)
    order = np.arange(width, dtype=np.int32)[None]
    count = np.array([retrieved], dtype=np.int32)
    nothing = np.zeros((1, width), dtype=np.bool_)
    node, score = np.zeros((1, width), np.int32), np.zeros((1, width))
    merged = Ranking(order, count, score, node, np.zeros((0, 1)))
    scores = FinalScores(merged, nothing, order, score)
    final = Reranked(order, count, scores, node, nothing, nothing, {}, {})
    marked, stands = np.array([images]), np.zeros(1, dtype=np.bool_)
    return final, Injected(order, count, node, nothing, nothing, (), marked, stands)


@pytest.mark.parametrize(
    ("kinds", "slots", "expected"),
    [
        # t text, i image, by place; 3 shown
        ("ittit", 0, [1, 2, 4, 0, 3]),
        ("ittit", 1, [1, 2, 0, 4, 3]),  # two texts, one image; then text, then image
        ("ittit", 2, [1, 0, 3, 2, 4]),
        ("ittit", 3, [1, 0, 3, 2, 4]),  # two images for three slots: text takes the one left
        ("tiii", 1, [0, 1, 2, 3]),  # too few texts
        ("iiit", 2, [3, 0, 1, 2]),
        ("ttt", 2, [0, 1, 2]),
        ("iii", 1, [0, 1, 2]),
    ],
)
def test_places_of_images_by_hand(kinds: str, slots: int, expected: list[int]) -> None:
    final, injected = ranking([kind == "i" for kind in kinds], len(kinds))
    section = TrimConfig(final_top_k=3, image_slots=slots)
    assert place_images(section, final, injected).order[0].tolist() == expected


@settings(deadline=None)
@given(
    images=st.lists(st.booleans(), min_size=1, max_size=12),
    share=st.floats(0, 1),
    shown=st.integers(1, 6),
    data=st.data(),
)
def test_texts_and_images_each_keep_their_order(
    images: list[bool], share: float, shown: int, data: st.DataObject
) -> None:
    slots = data.draw(st.integers(0, shown))
    retrieved = int(share * len(images))
    final, injected = ranking(images, retrieved)
    section = TrimConfig(final_top_k=shown, image_slots=slots)
    order = place_images(section, final, injected).order[0].tolist()
    assert sorted(order) == list(range(len(images)))
    inside = order[:retrieved]
    assert set(inside) == set(range(retrieved))
    for kind in (True, False):
        own = [place for place in inside if images[place] == kind]
        assert own == sorted(own)
    found = sum(images[:retrieved])
    texts = retrieved - found
    # The slots, and whatever the texts leave free.
    expected = min(found, max(min(slots, found), shown - texts), shown)
    assert sum(images[place] for place in inside[:shown]) == expected


def test_slots_are_refused_when_there_are_more_than_is_shown() -> None:
    with pytest.raises(InputError, match="image_slots must be at most final_top_k"):
        RetrieverConfig().with_overrides({"trim.image_slots": 6})


# ------------------------------------------------------------------------------- commands


def test_command_takes_a_query_image(assay, tmp_path: Path) -> None:
    corpus = write_documents(tmp_path / "c", DOCUMENTS[3:])
    write_images(tmp_path, {"q.png": "lung"})
    assert assay("index", corpus, "-o", tmp_path / "i").code == 0
    asked = ("search", tmp_path / "i", "lung", "--json", "--explain")
    found = json.loads(assay(*asked, "--image", tmp_path / "q.png").out)
    assert found["image"] == str(tmp_path / "q.png")
    assert "query_image_unused" in [event["event"] for event in found["audit"]]
    missing = assay(*asked, "--image", tmp_path / "no.png")
    assert missing.code == 2
    assert "the image" in missing.err
    assert json.loads(assay(*asked).out)["image"] is None
