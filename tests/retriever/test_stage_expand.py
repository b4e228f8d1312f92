"""expand: the suffix of entities, the extra terms of the overlap, and what words see."""

from pathlib import Path

from stage_worlds import config_of, open_world, subscribers_of, understood

from retriever.hooks import Expansion
from retriever.stages.expand import expand

TEXT, GENERAL, CHEMICAL = "eagle_text_biomed", "eagle_text", "eagle_chemical"


def expanded(
    folder: Path, text: str, collection: str = TEXT, overrides: dict[str, object] | None = None
) -> Expansion:
    config = config_of(folder, overrides)
    (found,) = expand([text], understood(config, text), collection, subscribers_of(config))
    return found


def test_suffix_has_two_aliases_and_a_pathway_each_when_entities_are_found(tmp_path: Path) -> None:
    # by first place: EGFR (ErbB1, HER1, EGFR signaling), then Iressa = gefitinib (Iressa, ZD1839,
    # and the pathway that stands there already); the third alias and second pathway stay out
    assert expanded(tmp_path, "EGFR and Iressa and EGFR").dense_texts == (
        "EGFR and Iressa and EGFR [biomed entities: ErbB1, HER1, EGFR signaling, Iressa, ZD1839]",
    )


def test_suffix_follows_the_query_when_its_entities_change_places(tmp_path: Path) -> None:
    assert expanded(tmp_path, "gefitinib for EGFR").dense_texts == (
        "gefitinib for EGFR [biomed entities: Iressa, ZD1839, EGFR signaling, ErbB1, HER1]",
    )


def test_suffix_stops_at_twelve_terms_when_entities_have_more(tmp_path: Path) -> None:
    import json

    records = [
        {"id": f"e{i}", "name": f"entity{i}x", "aliases": [f"a{i}", f"b{i}"], "pathways": [f"p{i}"]}
        for i in range(5)
    ]
    (tmp_path / "lexicon.json").write_text(json.dumps(records), "utf-8")
    query = " ".join(f"entity{i}x" for i in range(5))
    (dense,) = expanded(tmp_path, query).dense_texts
    # 5 entities give 15 terms; 4 of them 12
    assert dense == (f"{query} [biomed entities: a0, b0, p0, a1, b1, p1, a2, b2, p2, a3, b3, p3]")


def test_text_is_raw_when_the_collection_is_not_expanded(tmp_path: Path) -> None:
    assert expanded(tmp_path, "EGFR dose", GENERAL).dense_texts == ("EGFR dose",)
    only = {"plugins.biomed.expand.expand_collections": [GENERAL]}
    assert expanded(tmp_path, "EGFR dose", TEXT, only).dense_texts == ("EGFR dose",)
    assert "biomed entities" in expanded(tmp_path, "EGFR dose", GENERAL, only).dense_texts[0]


def test_text_is_raw_when_there_is_nothing_to_append(tmp_path: Path) -> None:
    assert expanded(tmp_path, "afatinib in June").dense_texts == ("afatinib in June",)
    none = {"plugins.biomed.expand.terms": 0}
    assert expanded(tmp_path, "EGFR", overrides=none).dense_texts == ("EGFR",)


def test_tier_1_compares_the_raw_query_when_the_dense_text_is_expanded(tmp_path: Path) -> None:
    assert expanded(tmp_path, "EGFR dose").raw_texts == ("EGFR dose",)


def test_sparse_terms_are_drugs_then_cues_when_both_are_asked_for(tmp_path: Path) -> None:
    found = expanded(tmp_path, "warnings and indications of Tarceva, Iressa for EGFR")
    # EGFR is no drug; names stand for each drug, cues come with `_` as space
    assert list(found.sparse_terms) == [
        "erlotinib",
        "gefitinib",
        "warnings",
        "indications and usage",
    ]
    assert found.sparse_terms["erlotinib"] == ("erlotinib", "Tarceva")


def test_chemistry_is_asked_for_structures_when_the_query_has_some(tmp_path: Path) -> None:
    # the salt's parent is acetic acid
    text = "ligand like CC(=O)[O-].[Na+]"
    assert expanded(tmp_path, text, CHEMICAL).dense_texts == ("CC(=O)O",)
    assert expanded(tmp_path, "ethane", CHEMICAL).raw_texts == ("CC",)
    assert expanded(tmp_path, "gefitinib", CHEMICAL).dense_texts == ()


def test_own_structure_wins_when_the_query_names_a_drug_too(tmp_path: Path) -> None:
    assert expanded(tmp_path, "ethane CC(=O)O", CHEMICAL).dense_texts == ("CC(=O)O",)


def test_words_see_the_raw_query_when_the_dense_text_is_expanded(tmp_path: Path) -> None:
    # d2 holds nothing but what expansion adds; BM25 must not find it
    world = open_world(
        tmp_path,
        [{"_id": "d1", "text": "EGFR in lung"}, {"_id": "d2", "text": "ErbB1 HER1 signaling"}],
    )
    trace = world.trace(["EGFR"])
    assert "HER1" in trace.expansions[TEXT][0].dense_texts[0]
    place = [str(item) for item in trace.slots.lists].index("eagle_text_biomed:bm25")
    rows = trace.found[place].rows[0]
    assert [world.index.chunks.value("document_id", r) for r in rows if r >= 0] == ["d1"]


def test_every_collection_is_asked_the_text_when_no_plugin_speaks() -> None:
    from retriever import RetrieverConfig

    config = RetrieverConfig(namespace="general")
    texts = ("EGFR dose",)
    (found,) = expand(texts, understood(config, *texts), GENERAL, subscribers_of(config))
    assert (found.dense_texts, dict(found.sparse_terms), found.raw_texts) == (texts, {}, texts)
