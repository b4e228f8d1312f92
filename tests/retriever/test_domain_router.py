"""The document router: each signal worked out by hand, the three tiers, and what must hold."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from retriever.biomed.domain import (
    DomainConfig,
    DomainVerdict,
    Sketch,
    fused_score,
    route_documents,
    sketch,
    token_entropy,
)
from retriever.biomed.lexicon import Entity, Lexicon
from retriever.encoders.base import Vectors
from retriever.files import InputError
from retriever.ingest.chunk import Chunk, Document, chunk_document, word_spans

LEXICON = Lexicon(
    (
        Entity(id="drug:gefitinib", name="gefitinib", aliases=("Iressa",), is_drug=True),
        Entity(id="gene:EGFR", name="EGFR"),
        Entity(id="disease:asthma", name="asthma"),
    )
)
AXES = {"bio one": (1, 0, 0), "bio two": (0, 1, 0), "gen": (0, 0, 1)}


def settings(**values: Any) -> DomainConfig:
    prototypes = {"biomedical_prototypes": ("bio one", "bio two"), "general_prototypes": ("gen",)}
    return DomainConfig(**{"threshold": 0.1, "margin": 0.1, **prototypes, **values})


def encoder(vectors: Mapping[str, Sequence[float]]) -> Callable[[Sequence[str]], Vectors]:
    known = {**AXES, **vectors}
    return lambda texts: np.array([known[text] for text in texts], dtype=np.float32)


def verdict_on(
    text: str, vector: Sequence[float], sections: tuple[str, ...] = (), **values: Any
) -> DomainVerdict:
    item = Sketch("d1", text, sections)
    return route_documents([item], encoder({text: vector}), settings(**values), LEXICON)[0]


def must_not_encode(texts: Sequence[str]) -> Vectors:
    raise AssertionError(f"asked to encode {texts}")


def document(metadata: Mapping[str, Any] | None = None, text: str = "") -> Document:
    return Document("d1", "", text, metadata or {}, name="d1")


def chunk(position: int, text: str, section: str = "", summary: str = "") -> Chunk:
    return Chunk(f"d1#{position:04d}", "d1", position, section, text, summary)


def test_prototype_is_the_best_biomedical_cosine_minus_the_general_one() -> None:
    # (0.6, 0.48, 0.64) has length 1: best biomedical 0.6, general 0.64
    signals = verdict_on("x", (0.6, 0.48, 0.64)).signals
    assert signals["biomedical_cosine"] == pytest.approx(0.6)
    assert signals["general_cosine"] == pytest.approx(0.64)
    assert signals["prototype"] == pytest.approx(-0.04)


def test_prototype_counts_a_negative_cosine_as_0_when_all_of_a_list_are() -> None:
    # best biomedical -0.48, so 0; general 0.6
    assert verdict_on("x", (-0.48, -0.64, 0.6)).signals["prototype"] == pytest.approx(-0.6)


def test_prototype_is_a_cosine_when_vectors_are_not_of_unit_length() -> None:
    # (3, 0, 4) has length 5: 0.6 - 0.8
    assert verdict_on("x", (3, 0, 4)).signals["prototype"] == pytest.approx(-0.2)


def test_entities_count_once_over_the_root_of_the_characters() -> None:
    # Iressa and gefitinib are one, EGFR another: 2 / sqrt(100)
    text = "Iressa, gefitinib, EGFR".ljust(100, ".")
    assert verdict_on(text, (1, 0, 0)).signals["entities"] == pytest.approx(0.2)


def test_entities_is_at_most_1_when_the_text_is_a_name() -> None:
    # 1 / sqrt(4) = 0.5 for a text of four characters; three entities in nine would give 1
    assert verdict_on("EGFR", (1, 0, 0)).signals["entities"] == pytest.approx(0.5)
    tiny = Lexicon(tuple(Entity(id=name, name=name) for name in "abcde"))
    item = Sketch("d1", "a b c d e")  # 5 / sqrt(9) = 1.67
    [verdict] = route_documents([item], encoder({item.text: (1, 0, 0)}), settings(), tiny)
    assert verdict.signals["entities"] == 1.0


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ((), 0),
        (("methods",), 1 / 3),
        (("introduction", "methods", "warnings", "abstract", "conclusion"), 2 / 3),
        (("introduction", "methods", "results", "discussion"), 1),
    ],
)
def test_sections_count_the_four_of_imrad(sections: tuple[str, ...], expected: float) -> None:
    assert verdict_on("x", (1, 0, 0), sections).signals["sections"] == pytest.approx(expected)


def test_entropy_is_in_bits_of_words_in_any_case() -> None:
    # four words, each a quarter of the eight: log2(4) = 2 bits, of 5
    text = "dose, Dose; cell CELL gene gene_ drug drug"
    assert token_entropy(text) == pytest.approx(2.0)
    assert verdict_on(text, (1, 0, 0)).signals["entropy"] == pytest.approx(0.4)


def test_entropy_weighs_words_by_their_share() -> None:
    # half a, a quarter b, an eighth c and d: 1/2 * 1 + 1/4 * 2 + 2 * 1/8 * 3 = 1.75 bits
    assert token_entropy("a a a a b b c d") == pytest.approx(1.75)


def test_entropy_is_0_when_there_are_fewer_than_eight_words() -> None:
    assert token_entropy("a b c d e f g") == 0
    assert token_entropy("a b c d e f g h") == pytest.approx(3.0)
    assert token_entropy("") == 0


def test_entropy_signal_is_at_most_1_when_there_are_many_words() -> None:
    text = " ".join(f"word{number}" for number in range(64))  # 6 bits
    assert verdict_on(text, (1, 0, 0)).signals["entropy"] == 1.0


def test_fused_adds_the_four_signals_by_their_weights() -> None:
    # 0.55 * -0.04 + 0.25 * 0.2 + 0.15 * 2/3 + 0.05 * 0.4 = -0.022 + 0.05 + 0.1 + 0.02
    text = "Iressa Iressa EGFR EGFR dose dose cell cell".ljust(100, ".")
    verdict = verdict_on(text, (0.6, 0.48, 0.64), ("methods", "results"))
    assert verdict.signals["fused"] == pytest.approx(0.148)


@pytest.mark.parametrize(
    ("cosine", "tier", "domain", "confidence"),
    [
        (0.36364, 1, "biomedical", 0.600002),  # 0.55 * 0.36364 = 0.200002, just above 0.1 + 0.1
        (0.36363, 2, "biomedical", 0.5),  # 0.1999965
        (0.0, 2, "biomedical", 0.5),  # exactly 0.1 - 0.1
        (-0.00002, 1, "general", 0.600011),  # -0.000011
    ],
)
def test_score_decides_when_it_lies_beyond_the_margin(
    cosine: float, tier: int, domain: str, confidence: float
) -> None:
    rest = math.sqrt(1 - cosine**2)
    # A fourth axis that no prototype has keeps the other cosine at 0.
    vector = (cosine, 0, 0, rest) if cosine >= 0 else (0, 0, -cosine, rest)
    vectors = {**{name: (*axis, 0) for name, axis in AXES.items()}, "x": vector}
    [verdict] = route_documents([Sketch("d1", "x")], encoder(vectors), settings(), LEXICON)
    assert (verdict.tier, verdict.domain) == (tier, domain)
    assert verdict.rule == ("fused" if tier == 1 else "ambiguous_default")
    assert verdict.confidence == pytest.approx(confidence)


def test_score_on_the_margin_is_doubtful_when_floats_do_not_add_up() -> None:
    # 0.55 * 0.6 = 0.33 = 0.21 + 0.12, though 0.33 - 0.21 comes out above 0.12 in floats
    assert 0.33 - 0.21 > 0.12
    vectors = {**{name: (*axis, 0) for name, axis in AXES.items()}, "x": (0.6, 0, 0, 0.8)}
    [verdict] = route_documents(
        [Sketch("d1", "x")], encoder(vectors), settings(threshold=0.21, margin=0.12), LEXICON
    )
    assert verdict.signals["fused"] == pytest.approx(0.33)
    assert verdict.rule == "ambiguous_default"


def test_doubtful_documents_are_general_when_so_configured() -> None:
    verdict = verdict_on("x", (0.6, 0, 0.6), ambiguous_default="general")
    assert (verdict.domain, verdict.tier, verdict.rule) == ("general", 2, "ambiguous_default")


def test_a_declared_domain_is_kept_and_nothing_encoded() -> None:
    items = [Sketch("d1", "x", declared="general"), Sketch("d2", "y", declared="biomedical")]
    verdicts = route_documents(items, must_not_encode, settings(declared="biomedical"), LEXICON)
    assert [v.domain for v in verdicts] == ["general", "biomedical"]
    assert {(v.tier, v.rule, v.confidence) for v in verdicts} == {(0, "declared_by_document", 1.0)}
    assert verdicts[0].signals == {}


def test_configuration_declares_when_the_document_does_not() -> None:
    [verdict] = route_documents(
        [Sketch("d1", "x")], must_not_encode, settings(declared="general", router=False), LEXICON
    )
    assert (verdict.domain, verdict.tier) == ("general", 0)
    assert verdict.rule == "declared_by_configuration"


def test_all_is_biomedical_when_the_router_is_off() -> None:
    [verdict] = route_documents(
        [Sketch("d1", "x")], must_not_encode, settings(router=False), LEXICON
    )
    assert verdict == DomainVerdict("biomedical", 0, "router_off", 0.5)


@pytest.mark.parametrize("text", ["", " \n\t\u00a0"])
def test_a_document_without_text_is_left_to_the_default(text: str) -> None:
    [verdict] = route_documents(
        [Sketch("d1", text)], must_not_encode, settings(ambiguous_default="general"), LEXICON
    )
    assert (verdict.domain, verdict.tier, verdict.rule) == ("general", 2, "no_text")


def test_no_documents_give_no_verdicts() -> None:
    assert route_documents([], must_not_encode, settings(), LEXICON) == []


def test_order_is_kept_when_tiers_are_mixed() -> None:
    items = [
        Sketch("d1", "g"),
        Sketch("d2", "b", declared="biomedical"),
        Sketch("d3", ""),
        Sketch("d4", "b"),
    ]
    encode = encoder({"g": (0, 0, 1), "b": (1, 0, 0)})
    verdicts = route_documents(items, encode, settings(), LEXICON)
    assert [v.rule for v in verdicts] == ["fused", "declared_by_document", "no_text", "fused"]
    assert [v.domain for v in verdicts] == ["general", "biomedical", "biomedical", "biomedical"]


unit = st.floats(0, 1)
signal_sets = st.fixed_dictionaries(
    {"prototype": st.floats(-1, 1), "entities": unit, "sections": unit, "entropy": unit}
)


@given(signal_sets, st.sampled_from(["prototype", "entities", "sections", "entropy"]), unit)
def test_fused_never_falls_when_a_signal_rises(
    signals: dict[str, float], name: str, rise: float
) -> None:
    raised = {**signals, name: min(1.0, signals[name] + rise)}
    assert fused_score(raised) >= fused_score(signals)


@given(
    st.tuples(*[st.integers(-9, 9)] * 3).filter(any),
    st.floats(-0.9, 0.9),
    st.floats(0, 0.1),
    st.floats(0, 0.5),
)
def test_verdict_never_turns_biomedical_when_the_threshold_rises(
    vector: tuple[int, int, int], threshold: float, rise: float, margin: float
) -> None:
    order = {("general", 1): 0, ("biomedical", 2): 1, ("biomedical", 1): 2}
    low, high = (
        verdict_on("x", vector, threshold=value, margin=margin)
        for value in (threshold, threshold + rise)
    )
    assert order[high.domain, high.tier] <= order[low.domain, low.tier]


hostile = st.text() | st.sampled_from(
    [
        "\x00" * 50,
        "\u202e\u200b EGFR",
        "𝕘𝕖𝕗𝕚",
        "\ud800 lone",
        "a" * 9_000,
        "]]>{}\\'\"; DROP",
        "٣" * 9,
    ]
)


@given(st.lists(hostile, max_size=5), st.lists(st.sampled_from("imrd"), max_size=5))
def test_signals_stay_in_range_and_out_of_each_others_way_when_text_is_hostile(
    texts: list[str], letters: list[str]
) -> None:
    names = {"i": "introduction", "m": "methods", "r": "results", "d": "discussion"}
    items = [Sketch(str(i), text, tuple(map(names.get, letters))) for i, text in enumerate(texts)]  # type: ignore[arg-type]

    def encode(asked: Sequence[str]) -> Vectors:
        rows = [AXES.get(text, (len(text) % 7 - 3, len(text) % 5, 1)) for text in asked]
        return np.array(rows, dtype=np.float32)

    together = route_documents(items, encode, settings(), LEXICON)
    alone = [route_documents([item], encode, settings(), LEXICON)[0] for item in items]
    assert together == alone
    for verdict in together:
        assert 0 <= verdict.confidence <= 1
        for name, value in verdict.signals.items():
            assert (-1 if name in ("prototype", "fused") else 0) <= value <= 1


def test_sketch_is_summaries_once_and_then_the_first_eight_chunks() -> None:
    chunks = [chunk(i, f"text {i}", summary="same" if i < 9 else "last") for i in range(10)]
    lines = sketch(document(), chunks).text.split("\n")
    assert lines == ["same", "last", *(f"text {i}" for i in range(8))]


def test_sketch_is_cut_at_8000_characters() -> None:
    # 10 for the summary and a line break, 7,990 of the chunk
    text = sketch(document(), [chunk(0, "x" * 9_000, summary="s" * 9)]).text
    assert text == "s" * 9 + "\n" + "x" * 7_990


def test_sketch_names_every_section_once_when_chunks_hold_several() -> None:
    sections = ("introduction methods", "methods", "", *["results"] * 8, "discussion")
    chunks = [chunk(i, "x", section) for i, section in enumerate(sections)]
    found = sketch(document(), chunks).sections
    assert found == ("introduction", "methods", "results", "discussion")


def test_sketch_is_empty_when_a_document_gives_no_chunks() -> None:
    assert sketch(document(), []) == Sketch("d1", "")


def test_sketch_of_a_structured_abstract_has_its_sections() -> None:
    text = "BACKGROUND: We asked why. METHODS: We counted. RESULTS: There were ten. " * 2
    whole = document(text=text)
    chunks = chunk_document(whole, word_spans)
    assert sketch(whole, chunks).sections == ("introduction", "methods", "results")


@pytest.mark.parametrize(
    ("value", "expected"),
    [("General", "general"), (" biomedical ", "biomedical"), (None, None), ("", None)],
)
def test_sketch_reads_the_declared_domain(value: object, expected: str | None) -> None:
    assert sketch(document({"domain": value}), []).declared == expected


@pytest.mark.parametrize("value", ["biomedcal", 1, ["general"], False])
def test_an_unknown_declared_domain_is_refused(value: object) -> None:
    with pytest.raises(InputError, match=r"metadata\.domain of document 'd1'.*biomedical or gen"):
        sketch(document({"domain": value}), [])


def test_shipped_settings_read_back_to_equal_ones() -> None:
    shipped = DomainConfig()
    assert DomainConfig.model_validate(shipped.model_dump(mode="json")) == shipped
    assert len(shipped.biomedical_prototypes) >= 10
    assert len(shipped.general_prototypes) >= 10
    every = [*shipped.biomedical_prototypes, *shipped.general_prototypes]
    assert len(set(every)) == len(every)


@pytest.mark.parametrize(
    "values",
    [
        {"margin": -0.1},
        {"threshold": math.nan},
        {"declared": "chemistry"},
        {"biomedical_prototypes": ()},
        {"general_prototypes": ("text", " ")},
        {"arbiter": {"url": "http://localhost/v1"}},
        {"arbiter": {"url": "file:///etc/hosts", "model": "m"}},
        {"arbiter": {"timeout_s": 0}},
    ],
)
def test_settings_are_refused_when_out_of_range(values: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        DomainConfig.model_validate(values)
