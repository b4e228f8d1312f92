"""Other spellings of a term, and a lexicon that knows them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever.biomed.lexicon import Entity, Lexicon
from retriever.biomed.variants import MOST, compact, variants, with_variants


@pytest.mark.parametrize(
    ("term", "other"),
    [
        ("infarction of myocardium", "myocardial infarction"),
        ("infarction of the myocardium", "myocardial infarction"),
        ("Carcinoma, Hepatocellular", "hepatocellular carcinoma"),
        ("renal failure", "kidney failure"),
        ("kidney failure", "renal failure"),
        ("IL-6", "il6"),
        ("IL 6", "il-6"),
        ("IL6", "il-6"),
        ("beta-blocker", "beta blocker"),
        ("co-trimoxazole", "cotrimoxazole"),
        ("seizure", "seizures"),
        ("seizures", "seizure"),
        ("neuropathy", "neuropathies"),
        ("epilepsies", "epilepsy"),
        ("leukaemia", "leukemia"),
        ("leukemia", "leukaemia"),
        ("leukaemias", "leukemia"),
        ("haemorrhage", "hemorrhage"),
        ("oedema", "edema"),
        ("edema", "oedema"),
        ("tumour", "tumor"),
        ("ischemic stroke", "ischaemic stroke"),
        ("sulphasalazine", "sulfasalazine"),
        ("TGF-β", "tgf-beta"),
        ("TGF-beta", "tgf-β"),
        ("tumours of the kidney", "renal tumor"),
    ],
)
def test_variants_hold(term: str, other: str) -> None:
    assert other in variants(term)


@pytest.mark.parametrize(
    ("term", "wrong"),
    [
        ("chemotherapy", "chaemotherapy"),
        ("academic", "academaic"),
        ("alphabet", "αbet"),
        ("arthritis", "arthriti"),
        ("sepsis", "sepsi"),
        ("pancreas", "pancrea"),
        ("lupus", "lupu"),
        ("tumorigenesis", "tumourigenesis"),
        ("estimate", "oestimate"),
        ("carcinoma, hepatocellular", "carcinoma, hepatocellulars"),
    ],
)
def test_variants_do_not_hold(term: str, wrong: str) -> None:
    assert wrong not in variants(term)


@given(st.text(max_size=30))
def test_variants_are_distinct_few_and_never_the_term(term: str) -> None:
    found = variants(term)
    assert len(set(found)) == len(found) <= MOST
    assert " ".join(term.lower().split()) not in found


@given(st.text(alphabet="aβB1- ", max_size=12))
def test_compact_is_the_same_for_every_hyphen_and_space(term: str) -> None:
    assert compact(term) == compact(term.replace("-", " ")) == compact(term.replace(" ", "-"))


def test_compact_writes_greek_letters_out() -> None:
    assert compact("TGF-β 1") == compact("tgf beta1") == "tgfbeta1"


def test_lexicon_with_variants_finds_them() -> None:
    lexicon = with_variants(Lexicon((Entity("s", "seizure"), Entity("l", "leukemia"))))
    assert [m.entity_id for m in lexicon.match("Leukaemias and seizures")] == ["l", "s"]
    assert lexicon.entity("s").name == "seizure"


def test_variant_is_left_out_when_another_entity_has_it_or_two_would_share_it() -> None:
    entities = (
        Entity("renal", "renal failure"),
        Entity("kidney", "kidney failure"),  # the variant of the first is this one's own name
        Entity("a", "co-drug"),
        Entity("b", "co drug"),  # both have the variant "co drugs"
        Entity("x", "gene"),
    )
    lexicon = with_variants(Lexicon(entities))
    assert lexicon.entities_named("kidney failure") == ("kidney",)
    assert lexicon.entities_named("renal failures") == ()
    assert lexicon.entities_named("codrug") == ("a",)
    assert lexicon.entities_named("co drugs") == ()
    assert lexicon.entities_named("genes") == ("x",)


def test_variants_of_short_terms_are_left_out() -> None:
    assert with_variants(Lexicon((Entity("m", "MET"),))).entities[0].aliases == ()
