"""A UMLS release: which rows count, which name leads, and every fault with its line."""

from pathlib import Path

import pytest

from retriever.biomed.lexicon import Entity, load_lexicon
from retriever.biomed.umls import read_umls
from retriever.files import InputError


def conso(
    cui: str,
    text: str,
    lat: str = "ENG",
    ts: str = "S",
    stt: str = "PF",
    pref: str = "N",
    sab: str = "MSH",
    suppress: str = "N",
) -> str:
    return f"{cui}|{lat}|{ts}|L1|{stt}|S1|{pref}|A1||M1|D1|{sab}|MH|C1|{text}|0|{suppress}|256|\n"


CONSO = (
    conso("C0004057", "Acetylsalicylic Acid")
    + conso("C0004057", "aspirin", ts="P", pref="Y")
    + conso("C0004057", "Aspirin")
    + conso("C0004057", "ASA", sab="RXNORM")
    + conso("C0004057", "Aspirine", lat="FRE")
    + conso("C0004057", "old name", suppress="O")
    + conso("C0027051", "Myocardial Infarction", ts="P", pref="Y")
    + conso("C0027051", "Infarction, Myocardial")
    + conso("C0009999", " ")
)
STY = (
    "C0004057|T109|A1.4|Organic Chemical|AT1||\n"
    "C0004057|T121|A1.4.1|Pharmacologic Substance|AT2|256|\n"
    "C0027051|T047|B2.2|Disease or Syndrome|AT3||\n"
)


@pytest.fixture
def release(tmp_path: Path) -> Path:
    (tmp_path / "MRCONSO.RRF").write_text(CONSO, "utf-8")
    (tmp_path / "MRSTY.RRF").write_text(STY, "utf-8")
    return tmp_path


def test_concepts_are_records_with_the_preferred_name_first(release: Path) -> None:
    found = read_umls(release)
    assert found.entities == (
        Entity(
            "C0004057",
            "aspirin",
            ("Acetylsalicylic Acid", "ASA"),
            ("Organic Chemical", "Pharmacologic Substance"),
            True,
        ),
        Entity(
            "C0027051",
            "Myocardial Infarction",
            ("Infarction, Myocardial",),
            ("Disease or Syndrome",),
            False,
        ),
    )
    assert found.skipped == {"not English": 1, "suppressed": 1, "empty string": 1}


def test_lexicon_loads_from_the_folder_or_the_file(release: Path) -> None:
    by_folder, by_file = load_lexicon(release), load_lexicon(release / "MRCONSO.RRF")
    assert by_folder == by_file
    assert by_folder.drugs_in("ASA after myocardial infarction") == ("C0004057",)


def test_sources_and_types_restrict_what_is_read(release: Path) -> None:
    assert [e.name for e in read_umls(release, ["RXNORM"]).entities] == ["ASA"]
    assert [e.id for e in read_umls(release, types=["T047"]).entities] == ["C0027051"]


def test_drug_is_told_by_its_name_when_there_are_no_types(release: Path) -> None:
    (release / "MRSTY.RRF").unlink()
    assert [e.is_drug for e in read_umls(release).entities] == [None, None]
    with pytest.raises(InputError, match="types are asked for"):
        read_umls(release, types=["T121"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (CONSO + "C1|ENG|P|\n", r"MRCONSO\.RRF:10: expected 18 columns, .* got 3"),
        (CONSO.replace("|256|\n", "|256\n", 1), r":1: expected 18 columns"),
        (conso("C1", "x", lat="FRE"), "no row is left"),
        ("", "no row is left"),
    ],
)
def test_fault_is_named(release: Path, content: str, message: str) -> None:
    (release / "MRCONSO.RRF").write_text(content, "utf-8")
    with pytest.raises(InputError, match=message):
        read_umls(release)


def test_file_that_is_not_utf8_or_missing_is_named(release: Path, tmp_path: Path) -> None:
    (release / "MRCONSO.RRF").write_bytes(CONSO.encode().replace(b"aspirin", b"aspir\xedn"))
    with pytest.raises(InputError, match="not UTF-8"):
        read_umls(release)
    with pytest.raises(InputError, match=r"no such file"):
        read_umls(tmp_path / "none")
