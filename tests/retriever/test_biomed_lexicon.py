"""The lexicon: what a drug is, names as identities, files and overlays with every fault named."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever.biomed.lexicon import Entity, Lexicon, load_lexicon
from retriever.files import InputError

LEXICON = Lexicon(
    (
        Entity("d1", "osimertinib", ("Tagrisso", "AZD9291"), is_drug=True),
        Entity("d2", "gefitinib", ("Iressa", "osimertinib"), is_drug=True),
        Entity("d3", "aspirin", ("ASA",), is_drug=True),
        Entity(
            "g1",
            "EGFR",
            ("epidermal growth factor receptor", "ErbB1"),
            semantic_types=("gene",),
            related_drugs=("d2", "Tagrisso", "iressa", "Newdrug  X"),
        ),
    )
)


@pytest.mark.parametrize(
    ("name", "types", "is_drug", "drug"),
    [
        ("sintilimab", (), None, True),
        ("Sunitinib", (), None, True),
        ("nib", (), None, True),
        ("vemurafenib", (), None, True),
        ("olaparib", (), None, True),
        ("orlistat", (), None, True),
        ("METFORMIN", (), None, True),
        ("atorvastatin", (), None, False),
        ("everolimus", (), None, False),
        ("sunitinib", ("gene",), None, False),
        ("sunitinib", (), False, False),
        ("everolimus", ("substance",), True, True),
    ],
)
def test_drug_is_what_the_record_or_a_bare_name_says(
    name: str, types: tuple[str, ...], is_drug: bool | None, drug: bool
) -> None:
    assert Entity("x", name, semantic_types=types, is_drug=is_drug).drug is drug


def test_brand_and_generic_are_one_drug_by_first_place() -> None:
    text = "Iressa, gefitinib, ErbB1 and Tagrisso (AZD9291, osimertinib)"
    assert LEXICON.drugs_in(text) == ("d2", "d1")


def test_own_name_is_preferred_when_another_entity_has_it_as_alias() -> None:
    assert LEXICON.drugs_in("osimertinib") == ("d1",)
    assert LEXICON.entities_named("Osimertinib") == ("d1", "d2")


def test_matches_name_entity_term_and_place() -> None:
    match = LEXICON.match("an egfr mutation")[0]
    assert (match.entity_id, match.term, match.start, match.end) == ("g1", "EGFR", 3, 7)


def test_names_come_first_name_first_without_repeats() -> None:
    lexicon = Lexicon((Entity("x", "a drug", ("b", "a drug", "c", "b")),))
    assert lexicon.names_of("x") == ("a drug", "b", "c")
    assert lexicon.names_of("name:other drug") == ("other drug",)


def test_drug_ids_compare_whole_names_through_the_lexicon() -> None:
    names = ["TAGRISSO", "osimertinib", "asa", "ASA", "EGFR", "Tagrisso 80 mg", " ", "d2", "name:q"]
    assert LEXICON.drug_ids(names) == (
        "d1",
        "name:asa",
        "d3",
        "name:egfr",
        "name:tagrisso 80 mg",
        "d2",
        "name:q",
    )


def test_related_drugs_resolve_by_id_or_name_each_once() -> None:
    assert LEXICON.related("g1") == ("d2", "d1", "name:newdrug x")
    assert LEXICON.related("d3") == ()


def test_unknown_id_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        LEXICON.entity("nothing")
    assert "nothing" not in LEXICON
    assert "g1" in LEXICON


def test_two_entities_with_one_id_are_refused() -> None:
    with pytest.raises(ValueError, match="share an id"):
        Lexicon((Entity("x", "a"), Entity("x", "b")))


def test_fingerprint_follows_content_and_not_order() -> None:
    one, other = Entity("a", "x"), Entity("b", "y", ("z",))
    assert Lexicon((one, other)).fingerprint == Lexicon((other, one)).fingerprint
    assert Lexicon((one, other)).fingerprint != Lexicon((one, Entity("b", "y"))).fingerprint
    assert [entity.id for entity in Lexicon((other, one)).entities] == ["a", "b"]


@given(st.lists(st.text(min_size=1, max_size=8), max_size=6))
def test_drug_ids_of_drug_ids_are_themselves(names: list[str]) -> None:
    ids = LEXICON.drug_ids(names)
    assert LEXICON.drug_ids(ids) == ids
    assert len(set(ids)) == len(ids)


# ------------------------------------------------------------------------------------------ files

FULL = {
    "id": "d1",
    "name": "drug one",
    "aliases": ["One", " Uno "],
    "semantic_types": ["substance"],
    "is_drug": True,
    "related_drugs": ["two"],
    "pathways": ["p"],
    "smiles": "CCO",
}


def write(path: Path, value: object) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
    return path


def test_json_and_csv_say_the_same(tmp_path: Path) -> None:
    as_json = write(tmp_path / "a.json", [FULL, {"id": "g", "name": "Gene", "is_drug": False}])
    as_csv = write(
        tmp_path / "a.csv",
        "\ufeffname,id,aliases,semantic_types,is_drug,related_drugs,pathways,smiles\r\n"
        "drug one,d1,One| Uno |,substance,true,two,p,CCO\r\n"
        "\r\n"
        "Gene,g,,,false,,,\r\n",
    )
    assert load_lexicon(as_json) == load_lexicon(as_csv)
    assert load_lexicon(as_csv).entity("d1") == Entity(
        "d1", "drug one", ("One", "Uno"), ("substance",), True, ("two",), ("p",), ("CCO",)
    )


def test_smiles_may_be_a_list(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", [{**FULL, "smiles": ["CCO", "OCC"]}])
    assert load_lexicon(path).entity("d1").smiles == ("CCO", "OCC")


ONE = {"id": "a1", "name": "x"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[{]", r"a\.json:1: not JSON"),
        ('[{"id": "a1",\n"name" "x"}]', r"a\.json:2: not JSON"),
        ({}, "expected an array"),
        ([3], r"record 1: is no object"),
        ([ONE, {"id": "b"}], r"record 2 \(b\): name: Field required"),
        ([{"id": 7, "name": "x"}], r"record 1 \(7\): id: .*not 7"),
        ([{"id": "a1", "name": "  "}], r"record 1 \(a1\): name: .*not '  '"),
        ([{**ONE, "alias": []}], r"'alias' is no field \(did you mean aliases\?\)"),
        ([{**ONE, "aliases": "x"}], r"record 1 \(a1\): aliases"),
        ([{**ONE, "aliases": [""]}], r"record 1 \(a1\): aliases\.0"),
        ([{**ONE, "is_drug": "perhaps"}], "is_drug: .*'perhaps'"),
        ([{**ONE, "smiles": 3}], "smiles"),
        ([ONE, ONE], r"record 2 \(a1\): the id 'a1' stands already in record 1 \(a1\)"),
        ([{"id": "name:x", "name": "x"}], "may not begin with 'name:'"),
        ('[{"id": "a1", "name": "x", "name": "y"}]', "'name' stands twice"),
        ('[{"id": "a1", "name": NaN}]', "NaN is not JSON"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_json_fault_is_named(tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load_lexicon(write(tmp_path / "a.json", content))
    assert str(caught.value).startswith(str(tmp_path / "a.json"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"a\.csv:1: the column 'id' is missing"),
        ("id,label\nx,y\n", r"a\.csv:1: 'label' is no column"),
        ("id,nam\nx,y\n", r"did you mean name\?"),
        ("id,name,name\nx,y,z\n", r"a\.csv:1: the column 'name' stands twice"),
        ("id,aliases\nx,y\n", r"a\.csv:1: the column 'name' is missing"),
        ("id,name\nx,y\nz\n", r"a\.csv:3: expected 2 columns, got 1"),
        ("id,name\nx,y\nz,\n", r"a\.csv:3: name: Field required"),
        ("id,name,is_drug\nx,y,maybe\n", r"a\.csv:2: is_drug: .*'maybe'"),
        ("id,name\nx,y\n\nx,z\n", r"a\.csv:4: the id 'x' stands already in line 2"),
        ('id,name\nx,"y\n', r"a\.csv:\d: not CSV"),
        ('id,name\nx,"y"z\n', r"a\.csv:\d: not CSV"),
    ],
)
def test_csv_fault_is_named_with_its_line(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_lexicon(write(tmp_path / "a.csv", content))


def test_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_lexicon(tmp_path / "none.json")
    with pytest.raises(InputError, match="is no lexicon"):
        load_lexicon(write(tmp_path / "a.xml", "<a/>"))
    (tmp_path / "latin.csv").write_bytes("id,name\nx,é\n".encode("latin-1"))
    with pytest.raises(InputError, match="not UTF-8"):
        load_lexicon(tmp_path / "latin.csv")


# --------------------------------------------------------------------------------------- overlays

BASE = [
    {"id": "drug:gefitinib", "name": "gefitinib", "aliases": ["Iressa"], "is_drug": True},
    {"id": "drug:everolimus", "name": "everolimus", "semantic_types": ["s"], "is_drug": True},
    {"id": "gene:EGFR", "name": "EGFR", "related_drugs": ["gefitinib"]},
]


def overlaid(folder: Path, *overlays: object) -> Lexicon:
    base = write(folder / "base.json", BASE)
    paths = [write(folder / f"o{i}.json", overlay) for i, overlay in enumerate(overlays)]
    return load_lexicon(base, paths)


def test_removed_drug_leaves_its_name_behind_where_it_was_related(tmp_path: Path) -> None:
    lexicon = overlaid(tmp_path, {"remove": ["drug:gefitinib"]})
    assert lexicon.drugs_in("Iressa or gefitinib") == ()
    assert lexicon.related("gene:EGFR") == ("name:gefitinib",)


def test_change_replaces_only_the_fields_it_names(tmp_path: Path) -> None:
    lexicon = overlaid(
        tmp_path, {"change": [{"id": "drug:everolimus", "is_drug": None, "aliases": ["RAD001"]}]}
    )
    everolimus = lexicon.entity("drug:everolimus")
    assert everolimus == Entity("drug:everolimus", "everolimus", ("RAD001",), ("s",))
    assert not everolimus.drug


def test_overlays_apply_in_order(tmp_path: Path) -> None:
    gone = {"remove": ["drug:gefitinib"]}
    back = {"add": [{"id": "drug:gefitinib", "name": "gefitinib", "is_drug": True}]}
    assert overlaid(tmp_path, gone, back).drugs_in("gefitinib") == ("drug:gefitinib",)
    assert overlaid(tmp_path, {**gone, **back}).names_of("drug:gefitinib") == ("gefitinib",)


def test_base_file_is_left_alone_by_an_overlay(tmp_path: Path) -> None:
    overlaid(tmp_path, {"remove": ["gene:EGFR"]})
    assert json.loads((tmp_path / "base.json").read_text("utf-8")) == BASE


@pytest.mark.parametrize(
    ("overlay", "message"),
    [
        ([], "is no overlay"),
        ({"delete": []}, "'delete' is no part of an overlay"),
        ({"add": {}}, "add is no list"),
        (
            {"remove": ["drug:gefitnib"]},
            r"remove 1: the id 'drug:gefitnib' is unknown \(did you mean drug:gefitinib\?\)",
        ),
        ({"remove": [3]}, "remove 1: expected an id, not 3"),
        ({"change": ["x"]}, "change 1: is no object"),
        ({"change": [{"name": "x"}]}, "change 1: expected an id, not None"),
        ({"change": [{"id": "gene:EGRF", "name": "x"}]}, r"did you mean gene:EGFR\?"),
        ({"change": [{"id": "gene:EGFR", "nam": "x"}]}, r"change 1: 'nam' is no field"),
        ({"change": [{"id": "gene:EGFR", "name": ""}]}, "change 1: name"),
        ({"add": [{"id": "gene:EGFR", "name": "x"}]}, r"taken \(use change instead\)"),
        ({"add": [{"id": "x"}]}, "add 1: name: Field required"),
    ],
)
def test_overlay_fault_is_named(tmp_path: Path, overlay: object, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        overlaid(tmp_path, overlay)
    assert str(caught.value).startswith(str(tmp_path / "o0.json"))
