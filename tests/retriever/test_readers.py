"""Each format by itself: what its reader makes of a file, and why it takes another not."""

import json
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from label_files import Label, LabelSection, as_openfda, as_pdf, as_spl

from retriever.ingest.chunk import Document
from retriever.ingest.folder import read_folder
from retriever.ingest.readers.blocks import Block, lay_out
from retriever.ingest.readers.source import Remark, clean
from retriever.ingest.sections import split_sections


def read(file: Path, content: bytes | str) -> tuple[list[Document], list[Remark]]:
    """Read one file as a folder of one."""
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_file(file)


def read_file(file: Path) -> tuple[list[Document], list[Remark]]:
    items = list(read_folder(file, lambda stage, total, done: None))
    documents = [item for item in items if isinstance(item, Document)]
    return documents, [item for item in items if isinstance(item, Remark)]


def reason(file: Path, content: bytes | str) -> tuple[str, str]:
    """Reason and detail of the one remark that a file without documents gives."""
    documents, (remark,) = read(file, content)
    assert documents == []
    assert (remark.kind, remark.path) == ("skipped", file.name)
    return remark.reason, remark.detail


def sections(document: Document) -> list[str]:
    return [section.name for section in split_sections(document.text)]


# --- HTML and Markdown ----------------------------------------------------------------------


def test_html_keeps_prose_and_headings_and_drops_code(tmp_path: Path) -> None:
    page = """<html><head><title>Portal</title><meta name="kb_name" content="labels">
    <meta name="tags" content="label, eu"><style>p {}</style></head><body>
    <nav>Menu</nav><h1>Novarel</h1><script>alert("code")</script><!-- note -->
    <h2>Warnings</h2><p>Dose above 10<sup>6</sup> units of CO<sub>2</sub><sup>®</sup>.</p>
    <ul><li>First <b>item</b></li><li><p>Second</p></li></ul>
    <table><tr><th>Dose</th><th>Rate</th></tr><tr><td><p>5 mg</p></td><td>3</td></tr></table>
    <p hidden>unseen</p></body></html>"""
    (document,), remarks = read(tmp_path / "a.html", page)
    assert document.title == "Novarel"
    assert document.text == (
        "## Warnings\n\nDose above 10^6 units of CO2®.\n\n- First item\n- Second\n\n"
        "Dose | Rate\n5 mg | 3"
    )
    assert (document.document_id, document.name, document.kb_name) == ("a.html", "a.html", "labels")
    assert document.tags == ("label", "eu")
    assert remarks == []


def test_html_reads_main_alone_where_there_is_one(tmp_path: Path) -> None:
    page = "<body><p>site</p><main><p>Prose.</p></main><footer>foot</footer></body>"
    (document,), _ = read(tmp_path / "a.htm", page)
    assert document.text == "Prose."


def test_html_is_read_when_it_is_nested_very_deep(tmp_path: Path) -> None:
    (document,), _ = read(tmp_path / "a.html", "<div>" * 20_000 + "deep" + "</div>" * 20_000)
    assert document.text == "deep"


def test_html_encoding_is_what_the_page_says(tmp_path: Path) -> None:
    page = "<meta charset='iso-8859-2'><p>Łódź</p>".encode("iso-8859-2")
    (document,), remarks = read(tmp_path / "a.html", page)
    assert (document.text, remarks) == ("Łódź", [])


@pytest.mark.parametrize(
    ("content", "expected"),
    [("", ("empty", "")), ("<script>x</script>", ("empty", "no text beside its code"))],
)
def test_html_is_skipped_when_it_has_no_text(
    tmp_path: Path, content: str, expected: tuple[str, str]
) -> None:
    assert reason(tmp_path / "a.html", content) == expected


def test_markdown_gives_front_matter_title_and_sections(tmp_path: Path) -> None:
    text = (
        "---\nid: n-1\nname: Novarel label\ndomain: biomedical\ndate: 2024-05-01\n---\n"
        "# Novarel\n\n## Dosage\n\nTake *one* [tablet](http://x).\n\n<script>bad()</script>\n\n"
        "### Missed doses\n\nSkip.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    )
    (document,), _ = read(tmp_path / "n.md", text)
    assert (document.document_id, document.name) == ("n-1", "Novarel label")
    assert document.metadata["domain"] == "biomedical"
    assert document.metadata["date"] == "2024-05-01"
    assert document.title == "Novarel"
    assert document.text == (
        "## Dosage\n\nTake one tablet.\n\n### Missed doses\n\nSkip.\n\na | b\n1 | 2"
    )
    assert sections(document) == ["dosage"]


@pytest.mark.parametrize(
    ("front", "message"),
    [
        ("a: &x [1]\nb: *x", "its front matter uses YAML aliases"),
        ("a: [", "its front matter is no YAML"),
        ("tags: label", "tags is no list of texts"),
    ],
)
def test_markdown_is_skipped_when_its_front_matter_is_bad(
    tmp_path: Path, front: str, message: str
) -> None:
    why, detail = reason(tmp_path / "n.md", f"---\n{front}\n---\ntext\n")
    assert why == "broken"
    assert message in detail


# --- plain text -----------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_text_is_decoded_by_its_byte_order_mark(tmp_path: Path, encoding: str) -> None:
    (document,), remarks = read(tmp_path / "a.txt", "TGF-β\r\n\r\nWARNINGS\r\nx".encode(encoding))
    assert (document.text, remarks) == ("TGF-β\n\nWARNINGS\nx", [])
    assert sections(document) == ["", "warnings"]


def test_text_is_read_as_windows_1252_and_says_so_when_it_is_no_utf8(tmp_path: Path) -> None:
    (document,), (remark,) = read(tmp_path / "a.txt", b"5 \xb5g \x96 dose")
    assert document.text == "5 µg – dose"
    assert (remark.kind, remark.reason) == ("repaired", "not UTF-8")


@pytest.mark.parametrize("content", [b"PK\0\0binary", b"\xff\xfe\0\xd8"])
def test_text_is_skipped_when_it_is_binary(tmp_path: Path, content: bytes) -> None:
    assert reason(tmp_path / "a.txt", content)[0] == "broken"


@given(st.text(st.characters()))
def test_cleaned_text_can_be_stored_and_is_clean_already(text: str) -> None:
    once = clean(text)
    once.encode()
    assert "\0" not in once
    assert clean(once) == once


# --- tables ---------------------------------------------------------------------------------


def test_table_gives_a_document_a_row(tmp_path: Path) -> None:
    table = (
        "ID;Name;Abstract;SMILES;Tags;Mol. weight;\n"
        'c1;Aspirin;"Relieves; pain";CC(=O)Oc1ccccc1C(=O)O;nsaid|otc;180.16;extra\n'
        "\n;Ibuprofen;;;;206.3\n"
    )
    (one, other), remarks = read(tmp_path / "drugs.csv", table)
    assert (one.document_id, one.title, one.name) == ("c1", "Aspirin", "Aspirin")
    assert one.text == "Relieves; pain\nMol. weight: 180.16\ncolumn 7: extra"
    assert one.metadata["smiles"] == "CC(=O)Oc1ccccc1C(=O)O"
    assert one.tags == ("nsaid", "otc")
    # The header is row 1, the blank line row 3.
    assert (other.document_id, other.path) == ("drugs.csv#4", "drugs.csv")
    assert other.text == "Mol. weight: 206.3"
    assert remarks == []


@pytest.mark.parametrize(
    ("name", "line"), [("t.tsv", "id\ttext, more"), ("t.csv", 'id,"a;b;c"'), ("t.csv", "id|text")]
)
def test_delimiter_is_the_headers_own(tmp_path: Path, name: str, line: str) -> None:
    delimiter = "\t" if name == "t.tsv" else "|" if "|" in line else ","
    (document,), _ = read(tmp_path / name, f"{line}\n7{delimiter}x\n")
    assert document.document_id == "7"


def test_table_is_skipped_when_a_quote_stays_open(tmp_path: Path) -> None:
    assert reason(tmp_path / "t.csv", 'id,text\n1,"open\n')[0] == "broken"


def workbook(file: Path, sheets: dict[str, Sequence[Sequence[object]]]) -> None:
    from openpyxl import Workbook

    book = Workbook()
    book.remove(book.worksheets[0])
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(list(row))
    book.save(file)


def test_workbook_gives_a_document_a_row_of_every_sheet(tmp_path: Path) -> None:
    import datetime

    rows = [["title", "approved", "n"], ["A", datetime.datetime(2015, 7, 13), 3.0]]
    workbook(tmp_path / "b.xlsx", {"One": rows, "Two": [[], ["id", "text"], ["x", "prose"]]})
    (one, other), remarks = read_file(tmp_path / "b.xlsx")
    assert (one.document_id, one.text) == ("b.xlsx#One!2", "approved: 2015-07-13\nn: 3")
    assert (other.document_id, other.text) == ("x", "prose")
    assert remarks == []


def test_workbook_counts_formulas_that_have_no_value(tmp_path: Path) -> None:
    workbook(tmp_path / "b.xlsx", {"S": [["title", "sum"], ["A", "=1+1"], ["B", 2]]})
    documents, (remark,) = read_file(tmp_path / "b.xlsx")
    assert [d.text for d in documents] == ["", "sum: 2"]
    assert (remark.kind, remark.reason, remark.count) == ("cut", "formulas without a value", 1)


def test_workbook_is_refused_when_it_unpacks_to_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retriever.ingest.readers.workbook.MAX_UNPACKED_MB", 1)
    with zipfile.ZipFile(tmp_path / "b.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", b" " * 2_000_000)
    documents, (remark,) = read_file(tmp_path / "b.xlsx")
    assert (documents, remark.reason) == ([], "too large")
    assert remark.detail == "2 MB unpacked, at most 1"


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"", "empty"), (b"\xd0\xcf\x11\xe0\xa1", "encrypted"), (b"PK\3\4 no archive", "broken")],
)
def test_workbook_is_skipped_when_it_is_none(tmp_path: Path, content: bytes, expected: str) -> None:
    assert reason(tmp_path / "b.xlsx", content)[0] == expected


# --- structures -----------------------------------------------------------------------------


def sdf(*records: tuple[str, str, dict[str, str]]) -> str:
    from rdkit import Chem

    parts = []
    for name, smiles, properties in records:
        molecule = Chem.MolFromSmiles(smiles)
        molecule.SetProp("_Name", name)
        block = Chem.MolToMolBlock(molecule)
        said = "".join(f"> <{key}>\n{value}\n\n" for key, value in properties.items())
        parts.append(f"{block}{said}$$$$\n")
    return "".join(parts)


def test_sdf_gives_a_document_a_molecule(tmp_path: Path) -> None:
    from rdkit import Chem

    aspirin = "CC(=O)Oc1ccccc1C(=O)O"
    text = sdf(("aspirin", aspirin, {"ID": "DB00945", "Class": "NSAID"}), ("", "CCO", {}))
    (one, other), remarks = read(tmp_path / "m.sdf", text)
    assert (one.document_id, one.title, one.name) == ("DB00945", "aspirin", "aspirin")
    assert one.text == "Class: NSAID"
    assert Chem.CanonSmiles(one.metadata["smiles"]) == Chem.CanonSmiles(aspirin)
    assert (other.document_id, other.text) == ("m.sdf#2", "SMILES: CCO")
    assert remarks == []


def test_sdf_counts_records_that_are_no_structure(tmp_path: Path) -> None:
    good = sdf(("ethanol", "CCO", {}))
    bad = "x\n\n\n  1  0  0  0  0  0  0  0  0  0999 V2000\nnonsense\nM  END\n$$$$\n"
    (document,), (remark,) = read(tmp_path / "m.sdf", bad + good)
    assert document.document_id == "m.sdf#2"
    assert (remark.kind, remark.reason, remark.detail) == ("skipped", "no structure", "records 1")
    assert reason(tmp_path / "n.sdf", bad)[0] == "broken"


def test_smiles_file_gives_a_document_a_line(tmp_path: Path) -> None:
    text = "SMILES name\nCCO ethanol, absolute\nC1CC no ring end\n\nc1ccccc1\n"
    (one, other), (remark,) = read(tmp_path / "m.smi", text)
    assert (one.document_id, one.title, one.metadata["smiles"]) == (
        "m.smi#2",
        "ethanol, absolute",
        "CCO",
    )
    assert (other.document_id, other.name) == ("m.smi#5", "m.smi#5")
    assert remark.detail == "lines 3"


# --- labels ---------------------------------------------------------------------------------

LABEL = Label(
    "novarel",
    "Novarel",
    "gefitinib",
    [
        LabelSection("Uses", "For EGFR-mutated lung cancer.", "34067-9"),
        LabelSection("2 DOSAGE AND ADMINISTRATION", "250 mg once daily.", "34068-7"),
        LabelSection("2.1 Missed doses", "Skip it.", "42229-5", depth=2),
        LabelSection("6.1 Trials", "Diarrhoea.", "34084-4"),
    ],
)


def test_spl_sections_are_named_by_title_and_code(tmp_path: Path) -> None:
    (document,), remarks = read(tmp_path / "n.xml", as_spl(LABEL))
    assert (document.document_id, document.name) == ("novarel-version", "Novarel")
    assert document.metadata["set_id"] == "novarel"
    assert document.title == "Novarel (gefitinib)"
    assert document.text.startswith(
        "## Indications and usage\n\n### Uses\n\nFor EGFR-mutated lung cancer.\n\n## 2 DOSAGE"
    )
    # The highlights of a section repeat it and are left out.
    assert document.text.count("Skip it.") == 1
    assert sections(document) == ["indications_and_usage", "dosage", "adverse_reactions"]
    assert remarks == []


def test_openfda_gives_a_document_a_label(tmp_path: Path) -> None:
    (document,), remarks = read(tmp_path / "fda.json", as_openfda(LABEL))
    assert (document.document_id, document.name) == ("novarel-version", "Novarel")
    assert document.title == "Novarel (gefitinib)"
    assert sections(document) == ["indications_and_usage", "dosage", "adverse_reactions"]
    assert remarks == []


def test_openfda_skips_what_is_no_label_and_counts_it(tmp_path: Path) -> None:
    answer = json.loads(as_openfda(LABEL))
    answer["results"] += [{"set_id": "x", "id": "x"}, "no record"]
    (document,), (remark,) = read(tmp_path / "fda.json", json.dumps(answer))
    assert document.name == "Novarel"
    assert (remark.reason, remark.detail, remark.count) == (
        "no label with a section",
        "results 2, 3",
        2,
    )


ENTITY = (
    '<!DOCTYPE d [<!ENTITY {0}>]><document xmlns="urn:hl7-org:v3"><title>&x;</title></document>'
)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (ENTITY.format('x SYSTEM "file:///etc/passwd"'), ("refused", "DOCTYPE declares entities")),
        (ENTITY.format('x "lol">' + '<!ENTITY y "&x;&x;"'), ("refused", "declares entities")),
        ("<article><p>x</p></article>", ("no reader", "XML of the kind article")),
        ("<document>", ("broken", "no XML")),
        ('<document xmlns="urn:hl7-org:v3"/>', ("empty", "no section with text")),
        ("", ("empty", "")),
    ],
)
def test_xml_is_skipped_with_its_reason(
    tmp_path: Path, content: str, expected: tuple[str, str]
) -> None:
    why, detail = reason(tmp_path / "n.xml", content)
    assert (why, expected[1] in detail) == (expected[0], True)


def test_entities_in_attributes_are_never_expanded(tmp_path: Path) -> None:
    rows = ['<!ENTITY l0 "lololololol">']
    rows += [f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 10)]
    attack = f'<!DOCTYPE d [{"".join(rows)}]><document a="&l9;">&l9;</document>'
    assert reason(tmp_path / "n.xml", attack)[0] in ("refused", "broken")


# --- JSON lines -----------------------------------------------------------------------------


def test_json_lines_are_named_by_id_else_by_line(tmp_path: Path) -> None:
    text = '{"_id": "a", "text": "x"}\n\n{"title": "T", "text": "y", "metadata": {"name": "N"}}\n'
    for name in ("c.jsonl", "c.json"):
        (one, other), remarks = read(tmp_path / name, text)
        assert (one.document_id, one.name) == ("a", "a")
        assert (other.document_id, other.name) == (f"{name}#3", "N")
        assert remarks == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("c.jsonl", '{"_id": "a", "text": "x"}\n{"_id": "b", "text": 3}\n', "line 2: text is int"),
        ("c.jsonl", "{", "line 1: not JSON"),
        ("c.json", '["x"]', "neither openFDA labels nor JSON lines"),
        ("c.json", "{", "no JSON"),
    ],
)
def test_json_is_skipped_as_a_whole_when_a_part_is_bad(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    assert message in reason(tmp_path / name, content)[1]


# --- PDF ------------------------------------------------------------------------------------


def test_pdf_gives_title_headings_and_paragraphs(tmp_path: Path) -> None:
    sentence = "Novarel inhibits the epidermal growth factor receptor in these patients. "
    label = Label(
        "n",
        "Novarel",
        "",
        [LabelSection("What to avoid", (sentence * 12).strip() + "\nGrapefruit juice.")],
    )
    (document,), remarks = read(tmp_path / "n.pdf", as_pdf(label))
    assert document.title == "Novarel"
    assert document.text == f"## What to avoid\n\n{(sentence * 12).strip()}\n\nGrapefruit juice."
    assert (document.document_id, remarks) == ("n.pdf", [])


def pdf(tmp_path: Path, pages: Sequence[Sequence[str]], **protection: str) -> bytes:
    from fpdf import FPDF

    made = FPDF()
    made.set_font("Helvetica", size=11)
    if protection:
        made.set_encryption(**protection)
    for lines in pages:
        made.add_page()
        for line in lines:
            made.cell(0, 6, line, new_x="LMARGIN", new_y="NEXT")
    return bytes(made.output())


def test_running_heads_and_page_numbers_are_left_out(tmp_path: Path) -> None:
    pages = [
        ["Label of Novarel", f"Words of page {word} stand here.", f"Page {i} of 4"]
        for i, word in enumerate(("one", "two", "three", "four"), start=1)
    ]
    (document,), _ = read(tmp_path / "n.pdf", pdf(tmp_path, pages))
    assert "Novarel" not in document.text
    assert "Page" not in document.text
    assert [w for w in ("one", "two", "three", "four") if f"page {w} stand" in document.text] == [
        *("one", "two", "three", "four")
    ]


def test_words_parted_at_a_line_end_are_joined_as_the_document_writes_them(tmp_path: Path) -> None:
    lines = ["An inhibitor of long-term use, the inhi-", "bitor is for long-", "term use of IL-"]
    lines += ["2 alone."]
    (document,), _ = read(tmp_path / "n.pdf", pdf(tmp_path, [lines]))
    assert document.text == (
        "An inhibitor of long-term use, the inhibitor is for long-term use of IL-2 alone."
    )


def test_pages_beyond_the_limit_are_cut_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retriever.ingest.readers.pdf.MAX_PAGES", 2)
    content = pdf(tmp_path, [["first"], ["second"], ["third"]])
    (document,), (remark,) = read(tmp_path / "n.pdf", content)
    assert "third" not in document.text
    assert (remark.kind, remark.reason, remark.detail) == (
        "cut",
        "too many pages",
        "1 of 3 not read",
    )


def test_characters_beyond_the_limit_are_cut_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retriever.ingest.folder.MAX_CHARACTERS", 10)
    (document,), (remark,) = read(tmp_path / "a.txt", "0123456789abc")
    assert document.text == "0123456789"
    assert (remark.kind, remark.reason, remark.count) == ("cut", "too long", 3)


def picture(folder: Path) -> Path:
    from PIL import Image

    Image.new("RGB", (40, 40), "white").save(folder / "scan.png")
    return folder / "scan.png"


def test_pdf_is_skipped_when_it_is_a_scan(tmp_path: Path) -> None:
    from fpdf import FPDF

    made = FPDF()
    made.add_page()
    made.image(str(picture(tmp_path)))
    why, detail = reason(tmp_path / "s.pdf", bytes(made.output()))
    assert (why, detail) == ("no text", "a scan, which needs text recognition (OCR) first")


def test_pages_without_text_are_counted_when_others_have_some(tmp_path: Path) -> None:
    from fpdf import FPDF

    made = FPDF()
    made.set_font("Helvetica", size=11)
    made.add_page()
    made.cell(0, 6, "Text of the first page.")
    made.add_page()
    made.image(str(picture(tmp_path)))
    (document,), (remark,) = read(tmp_path / "s.pdf", bytes(made.output()))
    assert document.text == "Text of the first page."
    assert (remark.kind, remark.reason, remark.detail) == ("cut", "pages without text", "pages 2")


def test_pdf_is_skipped_when_it_is_broken_or_needs_a_password(tmp_path: Path) -> None:
    whole = pdf(tmp_path, [["text"]])
    locked = pdf(tmp_path, [["text"]], owner_password="o", user_password="u")
    assert reason(tmp_path / "a.pdf", whole[:300])[0] == "broken"
    assert reason(tmp_path / "b.pdf", "<html>404</html>")[0] == "broken"
    assert reason(tmp_path / "c.pdf", "")[0] == "empty"
    assert reason(tmp_path / "d.pdf", locked)[0] == "encrypted"


@pytest.mark.parametrize("seed", range(12))
def test_pdf_never_breaks_the_build_whatever_is_damaged(tmp_path: Path, seed: int) -> None:
    import random

    rng = random.Random(seed)
    content = bytearray(pdf(tmp_path, [["some text on a page"], ["and more of it"]]))
    for _ in range(20):
        content[rng.randrange(9, len(content))] = rng.randrange(256)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        documents, remarks = read(tmp_path / "n.pdf", bytes(content))
    assert documents or remarks


# --- blocks ---------------------------------------------------------------------------------


def test_title_is_the_heading_that_stands_alone_at_the_top() -> None:
    alone = lay_out([Block("Novarel", 1), Block("Warnings", 2), Block("x")], "a file's title")
    assert (alone.title, alone.text) == ("Novarel", "## Warnings\n\nx")
    one_of_many = lay_out([Block("Warnings", 2), Block("x"), Block("Uses", 2)], "a file's title")
    assert one_of_many.title == "a file's title"
    assert one_of_many.text == "## Warnings\n\nx\n\n## Uses"
    declared = lay_out([Block("Other", 1), Block("x")], declared="Said")
    assert (declared.title, declared.text) == ("Said", "# Other\n\nx")


def test_prose_that_looks_like_a_heading_stays_prose() -> None:
    page = lay_out([Block("# of patients\nmore")])
    assert [s.name for s in split_sections(page.text)] == [""]
