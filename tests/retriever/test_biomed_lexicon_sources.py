"""Lexicons from lists of names and from a corpus, written and read back."""

import json
from pathlib import Path

import pytest

from retriever.biomed.lexicon import Entity, Lexicon, load_lexicon
from retriever.biomed.lexicon_sources import from_corpus, from_name_lists, write_lexicon
from retriever.files import InputError


def test_list_gives_an_entity_a_line_with_further_names_after_tabs(tmp_path: Path) -> None:
    path = tmp_path / "names.txt"
    path.write_text("\ufeff# a list\r\n\r\nAspirin\tASA\t\tacetylsalicylic  acid\r\nfoo\n", "utf-8")
    built = from_name_lists([path], is_drug=True, semantic_types=("Substance",))
    assert built.entities == (
        Entity("term:aspirin", "Aspirin", ("ASA", "acetylsalicylic acid"), ("Substance",), True),
        Entity("term:foo", "foo", (), ("Substance",), True),
    )
    assert built.skipped == {}


def test_what_is_left_out_of_a_list_is_counted(tmp_path: Path) -> None:
    one, other = tmp_path / "a.txt", tmp_path / "b.txt"
    one.write_text("aspirin\tASA\nASPIRIN\nasa\n", "utf-8")
    other.write_text("ab\nibuprofen\taspirin\n", "utf-8")
    built = from_name_lists([one, other], shortest=3)
    assert [(e.name, e.aliases) for e in built.entities] == [
        ("asa", ()),
        ("aspirin", ("ASA",)),
        ("ibuprofen", ()),
    ]
    assert built.skipped == {"named before": 2, "shorter than 3 characters": 1}


def test_ids_differ_when_short_names_differ_in_case_alone(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("MET\nMet\n", "utf-8")
    built = from_name_lists([tmp_path / "a.txt"])
    assert [(e.id, e.name) for e in built.entities] == [
        ("term:met", "MET"),
        ("term:met (2)", "Met"),
    ]


def test_bad_list_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("# nothing\n")
    (tmp_path / "latin.txt").write_bytes("ok\ncafé\n".encode("latin-1"))
    with pytest.raises(InputError, match="no name in the list"):
        from_name_lists([tmp_path / "empty.txt"])
    with pytest.raises(InputError, match=r"latin\.txt:2: not UTF-8"):
        from_name_lists([tmp_path / "latin.txt"])
    with pytest.raises(InputError, match="cannot be read"):
        from_name_lists([tmp_path / "none.txt"])


def corpus(folder: Path, *documents: tuple[str, str]) -> Path:
    lines = [
        json.dumps({"_id": f"d{i}", "title": title, "text": "x", "metadata": {"name": name}})
        for i, (name, title) in enumerate(documents)
    ]
    (folder / "corpus.jsonl").write_text("\n".join(lines), "utf-8")
    return folder


def test_document_names_lose_what_kind_of_document_they_are(tmp_path: Path) -> None:
    built = from_corpus(
        corpus(
            tmp_path,
            ("Afatinib label", "Gilotrif (afatinib) tablets"),
            ("imatinib_label.pdf", ""),
            ("Imatinib label", "What the (whole) label says"),
            ("Label review", ""),
            ("Sunitinib review: old", ""),
            ("Dasatinib review", ""),
            ("123", ""),
        )
    )
    # "label" begins a name, so it is kept; "review" ends three and begins none.
    assert [(e.id, e.name, e.aliases) for e in built.entities] == [
        ("document:afatinib label", "Afatinib label", ()),
        ("document:dasatinib", "Dasatinib", ()),
        ("document:imatinib label", "imatinib label", ()),
        ("document:label", "Label", ()),
        ("document:sunitinib", "Sunitinib", ()),
    ]
    assert built.skipped == {"documents without a name of their own": 1}


def test_title_gives_another_name_when_it_holds_the_documents_own(tmp_path: Path) -> None:
    built = from_corpus(
        corpus(
            tmp_path,
            ("Afatinib card", "Gilotrif (afatinib) tablets"),
            ("Tepotinib card", "Tepmetko (tepotinib)"),
            ("MET card", "no pair"),
        )
    )
    assert {e.name: e.aliases for e in built.entities} == {
        "Afatinib": ("Gilotrif",),
        "Tepotinib": ("Tepmetko",),
    }
    assert load_lexicon(write(tmp_path, built.entities)).drugs_in("Tepmetko") == (
        "document:tepotinib",
    )


def test_name_of_a_brand_and_a_generic_is_two_names(tmp_path: Path) -> None:
    built = from_corpus(
        corpus(
            tmp_path,
            ("Gilotrif (afatinib) label", ""),
            ("afatinib label", ""),
            ("Giotrif (afatinib) label.pdf", "Afatinib tablets"),
            ("Tepotinib (Tepmetko)", ""),
            ("ICH E6(R2)", ""),
            ("Guidance (label)", ""),
        )
    )
    assert {e.name: e.aliases for e in built.entities} == {
        "afatinib": ("Gilotrif", "Giotrif"),
        "Tepotinib": ("Tepmetko",),
        "ICH E6(R2)": (),
        "Guidance (label)": (),
    }


def write(folder: Path, entities: tuple[Entity, ...]) -> Path:
    write_lexicon(folder / "lex.json", entities)
    return folder / "lex.json"


def test_corpus_without_names_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no document has a name"):
        from_corpus(corpus(tmp_path, ("12", "")))


def test_written_lexicon_reads_back_the_same(tmp_path: Path) -> None:
    bundled = load_lexicon()
    path = write(tmp_path, bundled.entities)
    assert load_lexicon(path).fingerprint == bundled.fingerprint
    first = Lexicon((Entity("x", "é\u2028x", is_drug=False),))
    assert load_lexicon(write(tmp_path, first.entities)) == first
    assert [p.name for p in tmp_path.iterdir()] == ["lex.json"]


def test_name_that_could_not_be_read_back_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"end the name in \.json"):
        write_lexicon(tmp_path / "lex.txt", (Entity("x", "y"),))
    assert list(tmp_path.iterdir()) == []
