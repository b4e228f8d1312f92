"""Import of judged queries: names resolved on token boundaries, each query labelled."""

import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gold import Columns, CorpusDocument, InputError, import_gold, load, read_qrels, validate
from gold.name_resolution import NameIndex
from gold.queries import read_queries
from gold.terms import stands_in

DOCUMENTS = [
    {"_id": "d1", "title": "Sunitinib", "text": "VEGFR inhibitor.", "metadata": {"name": "card"}},
    {"_id": "d2", "title": "", "text": "Sutent.", "metadata": {"name": "Label: sunitinib"}},
    {"_id": "d3", "title": "ICH E6(R2)", "text": "Good clinical practice."},
    {
        "_id": "d4",
        "title": "Metformin",
        "text": "Metastatic.",
        "metadata": {"file_name": "m_1.pdf"},
    },
]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(document) + "\n" for document in DOCUMENTS), "utf-8")
    return path


@pytest.fixture
def named(tmp_path: Path) -> Callable[..., Path]:
    """Write JSON lines that name documents; each argument is a query's fields."""

    def write(*queries: Mapping[str, object]) -> Path:
        path = tmp_path / "queries_in.jsonl"
        lines = [
            {"id": f"q{i}", "query": f"question {i}", "expected_doc_name_substrings": []} | dict(q)
            for i, q in enumerate(queries, start=1)
        ]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
        return path

    return write


def index() -> NameIndex:
    return NameIndex.of(
        CorpusDocument(d["_id"], d["title"], d["text"], d.get("metadata", {}))  # type: ignore[arg-type]
        for d in DOCUMENTS
    )


# --- names -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("SUNITINIB", ("d1", "d2")),
        ("label_sunitinib", ("d2",)),
        ("sunitinib label", ()),
        ("E6", ("d3",)),
        ("E", ()),
        ("met", ()),
        ("m_1", ("d4",)),
        ("d4", ("d4",)),
        ("--", ()),
        ("", ()),
    ],
)
def test_name_resolves_on_token_boundaries_when_looked_up(
    name: str, found: tuple[str, ...]
) -> None:
    assert index().resolve(name) == found


def test_whole_name_goes_before_part_of_one_when_asked_for() -> None:
    assert index().resolve("sunitinib", whole_first=True) == ("d1",)
    assert index().resolve("d2", whole_first=True) == ("d2",)
    assert index().resolve("E6", whole_first=True) == ("d3",)


@given(st.text("ab_- ", max_size=8), st.text("ab_- ", max_size=8))
def test_name_is_found_in_itself_when_it_has_a_token(name: str, around: str) -> None:
    one = NameIndex.of([CorpusDocument("x", f"{around} {name} {around}", "")])
    assert one.resolve(name) == (("x",) if set(name) & set("ab") else ())


def test_term_stands_on_token_boundaries_when_looked_for() -> None:
    assert stands_in("MET", "a met inhibitor")
    assert not stands_in("MET", "metastatic")
    assert stands_in("5%", "in 5% of them")
    assert not stands_in(" ", "a b")


# --- JSON lines that name documents ----------------------------------------------------------


def test_queries_are_labelled_when_names_or_terms_are_missing(
    named, corpus: Path, tmp_path: Path
) -> None:
    source = named(
        {"expected_doc_name_substrings": ["sunitinib"], "must_include_terms": ["VEGFR"]},
        {"expected_doc_name_substrings": ["E6", "guidance"]},
        {"expected_doc_name_substrings": ["E6"], "must_include_terms": ["practice", "oncology"]},
        {"expected_doc_name_substrings": ["imatinib"], "must_include_terms": ["KIT"]},
        {"must_include_terms": []},
    )
    report = import_gold(source, corpus, tmp_path / "set")
    assert report.alignment == {
        "q1": "aligned",
        "q2": "partial",
        "q3": "partial",
        "q4": "absent",
        "q5": "absent",
    }
    assert report.counts == {"aligned": 1, "partial": 2, "absent": 2}
    assert report.names == {"sunitinib": 2, "E6": 1}
    assert report.missing_names == {"guidance": ["q2"], "imatinib": ["q4"]}
    assert report.missing_terms == {"oncology": ["q3"], "KIT": ["q4"]}
    assert read_qrels(tmp_path / "set/qrels/test.tsv") == {
        "q1": {"d1": 1, "d2": 1},
        "q2": {"d3": 1},
        "q3": {"d3": 1},
    }
    queries = read_queries(tmp_path / "set/queries.jsonl", pytest.fail)
    assert queries["q3"][0].metadata == {"alignment": "partial", "missing_terms": ["oncology"]}
    assert queries["q4"][0].metadata["missing_names"] == ["imatinib"]


def test_fields_of_the_source_are_kept_when_imported(named, corpus: Path, tmp_path: Path) -> None:
    source = named(
        {
            "workflow": "regulatory",
            "role": "ra",
            "k": 5,
            "expected_doc_name_substrings": ["E6"],
            "route_hint": {"umls": ["x"]},
        }
    )
    import_gold(source, corpus, tmp_path / "set")
    query = load(tmp_path / "set").queries["q1"]
    assert (query.type, query.workflow, query.role, query.k) == (
        "regulatory",
        "regulatory",
        "ra",
        5,
    )
    assert query.metadata["route_hint"] == {"umls": ["x"]}
    assert validate(tmp_path / "set").ok


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": None}, 'no "id"'),
        ({"query": " "}, 'no "query"'),
        ({"k": 0}, '"k" is 0'),
        ({"expected_doc_name_substrings": "E6"}, "list of texts"),
        ({"must_include_terms": [""]}, "none empty"),
    ],
)
def test_line_is_named_when_a_field_is_wrong(
    named, corpus: Path, tmp_path: Path, fields: dict[str, object], message: str
) -> None:
    source = named({"expected_doc_name_substrings": ["E6"]}, fields)
    with pytest.raises(InputError, match=message) as caught:
        import_gold(source, corpus, tmp_path / "set")
    assert (caught.value.path, caught.value.line) == (source, 2)
    assert not (tmp_path / "set").exists()


def test_repeated_id_is_refused_when_read(named, corpus: Path, tmp_path: Path) -> None:
    source = named({"expected_doc_name_substrings": ["E6"]}, {"id": "q1"})
    with pytest.raises(InputError, match="stands in line 1 already"):
        import_gold(source, corpus, tmp_path / "set")


def test_nothing_is_written_when_no_name_is_found(named, corpus: Path, tmp_path: Path) -> None:
    source = named({"expected_doc_name_substrings": ["imatinib"]})
    with pytest.raises(InputError, match=r"none of its 1 names is in .*corpus\.jsonl: imatinib"):
        import_gold(source, corpus, tmp_path / "set")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "store") == [
        "corpus.jsonl",
        "queries_in.jsonl",
    ]


def test_folder_that_holds_something_is_left_alone_when_given(
    named, corpus: Path, tmp_path: Path
) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="holds something already"):
        import_gold(named({"expected_doc_name_substrings": ["E6"]}), corpus, tmp_path / "set")
    assert [path.name for path in (tmp_path / "set").iterdir()] == ["mine.txt"]


# --- spreadsheets ----------------------------------------------------------------------------

ROWS = [
    ["Question", "Answer", "Words", "Kind"],
    ["which TKI", "card; E6", "VEGFR|practice", "ci"],
    [],
    ["what dose", "d4", "", ""],
    ["which TKI", "Label: sunitinib", "", ""],
]
COLUMNS = Columns("question", "answer", "words", "kind")


def as_csv(path: Path, delimiter: str = ",") -> Path:
    quoted = [[f'"{cell}"' for cell in row] for row in ROWS]
    path.write_text("\ufeff" + "\r\n".join(map(delimiter.join, quoted)), "utf-8")
    return path


def as_xlsx(path: Path) -> Path:
    book = openpyxl.Workbook()
    for row in ROWS:
        book.active.append(row)
    book.save(path)
    return path


@pytest.mark.parametrize(
    "write",
    [
        lambda folder: as_csv(folder / "a.csv"),
        lambda folder: as_csv(folder / "a.csv", ";"),
        lambda folder: as_csv(folder / "a.tsv", "\t"),
        lambda folder: as_xlsx(folder / "a.xlsx"),
    ],
    ids=["comma", "semicolon", "tab", "xlsx"],
)
def test_table_gives_the_same_set_when_written_in_any_form(
    write: Callable[[Path], Path], corpus: Path, tmp_path: Path
) -> None:
    report = import_gold(write(tmp_path), corpus, tmp_path / "set", columns=COLUMNS)
    assert report.alignment == {"q1": "aligned", "q2": "aligned"}
    gold = load(tmp_path / "set")
    assert gold.qrels == {"q1": {"d1": 1, "d2": 1, "d3": 1}, "q2": {"d4": 1}}
    assert [query.text for query in gold.queries.values()] == ["which TKI", "what dose"]
    assert gold.queries["q1"].type == "ci"
    assert gold.queries["q1"].expected_terms == ("VEGFR", "practice")


@pytest.mark.parametrize(
    ("table", "columns", "line", "message"),
    [
        ("a,b\n1,2\n", Columns("query", "b"), 1, "no column 'query'.*columns: a, b"),
        ("q,q,d\n1,2,3\n", Columns("q", "d"), 1, "stands twice"),
        ('q,d\n"x\ny",d1\n,d4\n', Columns("q", "d"), 4, "without a query"),
        ("q,d,t\nx,d1,a\nx,d4,b\n", Columns("q", "d", None, "t"), 3, "type 'a' there, 'b' here"),
        ("q,d\nx,#N/A\n", Columns("q", "d"), None, "none of its 1 names"),
        ("q,d\n", Columns("q", "d"), None, "no query"),
        ("", Columns("q", "d"), None, "empty"),
        ('q,d\n"x,d1\n', Columns("q", "d"), 2, "not CSV"),
        ("q,d\ny,d1\nx, or y,d1\n", Columns("q", "d"), 3, "3 cells below a header of 2.*'d1'"),
    ],
)
def test_row_is_named_when_a_table_is_wrong(
    corpus: Path, tmp_path: Path, table: str, columns: Columns, line: int | None, message: str
) -> None:
    source = tmp_path / "a.csv"
    source.write_text(table)
    with pytest.raises(InputError, match=message) as caught:
        import_gold(source, corpus, tmp_path / "set", columns=columns)
    assert caught.value.line == line


def test_numbers_are_ids_when_a_sheet_holds_them(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"_id": "7", "title": "", "text": "a"}\n')
    book = openpyxl.Workbook()
    for row in (["query", "documents"], ["x", 7.0]):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    import_gold(tmp_path / "a.xlsx", corpus, tmp_path / "set")
    assert load(tmp_path / "set").qrels == {"q1": {"7": 1}}


def test_error_of_a_formula_is_refused_when_a_sheet_shows_it(corpus: Path, tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (["query", "documents"], ["x", "#REF!"]):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(InputError, match="shows the error #REF!") as caught:
        import_gold(tmp_path / "a.xlsx", corpus, tmp_path / "set")
    assert caught.value.line == 2


def test_workbook_is_refused_when_broken_or_too_large(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "a.xlsx").write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(InputError, match="broken workbook"):
        import_gold(tmp_path / "a.xlsx", corpus, tmp_path / "set")
    with zipfile.ZipFile(tmp_path / "b.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("readme.txt", "no workbook")
    with pytest.raises(InputError, match="no workbook that can be read"):
        import_gold(tmp_path / "b.xlsx", corpus, tmp_path / "set")
    with zipfile.ZipFile(tmp_path / "c.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.xml", b"0" * (257 << 20))
    with pytest.raises(InputError, match="unpacks to 257 MB"):
        import_gold(tmp_path / "c.xlsx", corpus, tmp_path / "set")


def test_usual_columns_are_read_and_others_listed(assay, corpus: Path, tmp_path: Path) -> None:
    source = tmp_path / "a.csv"
    source.write_text(
        "query,documents,Type,terms,Expected_Terms,note,\nwhich TKI,d1,ci,no,VEGFR,mine,7\n"
    )
    done = assay("gold", "import", source, "--corpus", corpus, "-o", tmp_path / "set")
    assert done.code == 0, done.err
    assert "columns that were not used: terms, note, column 7\n" in done.out
    query = load(tmp_path / "set").queries["q1"]
    assert (query.type, query.expected_terms) == ("ci", ("VEGFR",))


def test_usual_column_is_left_to_the_role_it_is_given(corpus: Path, tmp_path: Path) -> None:
    source = tmp_path / "a.csv"
    source.write_text("query,type,terms\nwhich TKI,d1,VEGFR\n")
    columns = Columns(documents="type")
    report = import_gold(source, corpus, tmp_path / "set", columns=columns)
    query = load(tmp_path / "set").queries["q1"]
    assert (query.type, query.expected_terms) == ("", ("VEGFR",))
    assert report.to_json()["unused_columns"] == []


# --- judgements by id ------------------------------------------------------------------------

TREC = "q1 0 d1 2\nq1 0 ICH_E6 1\nq1 0 d4 0\nq2 0 nowhere 1\n"
JSON = '{"q1": {"d1": 2, "ICH_E6": 1, "d4": 0}, "q2": {"nowhere": 1}}'
TOPICS = {
    "tsv": "q1\tfirst question\nq2\tsecond\nq3\tnot judged\n",
    "jsonl": '{"_id": "q1", "text": "first question"}\n{"_id": "q2", "text": "second"}\n',
    "trec": "<top>\n<num> Number: q1\n<title> first\n question\n</top>\n"
    "<top>\n<num>q2</num><title>second</title></top>\n",
}


@pytest.mark.parametrize("judgements", [TREC, JSON], ids=["trec", "json"])
@pytest.mark.parametrize("topics", TOPICS.values(), ids=TOPICS)
def test_grades_are_kept_when_judgements_are_imported(
    corpus: Path, tmp_path: Path, judgements: str, topics: str
) -> None:
    (tmp_path / "qrels.txt").write_text(judgements)
    (tmp_path / "topics.txt").write_text(topics)
    report = import_gold(
        tmp_path / "qrels.txt", corpus, tmp_path / "set", topics=tmp_path / "topics.txt"
    )
    assert report.alignment == {"q1": "aligned", "q2": "absent"}
    assert report.missing_names == {"nowhere": ["q2"]}
    gold = load(tmp_path / "set")
    assert gold.qrels == {"q1": {"d1": 2, "d3": 1, "d4": 0}}
    assert gold.queries["q1"].text == "first question"


@pytest.mark.parametrize(
    ("judgements", "topics", "line", "message"),
    [
        (TREC, None, None, "--topics FILE"),
        (TREC, "q1\tx\n", None, "query 'q2' is not in"),
        (TREC, "q1\tx\nq1\ty\n", 2, "stands twice"),
        (TREC, "q1 x\n", 1, "no query id and text"),
        (TREC, "<top><num>q1</top>", 1, "without <num> and <title>"),
        ('{"q1": {"d1": 0.5}}', "q1\tx\n", 1, "no integer"),
        ('{"q1": {"d1": 1},\n "q1": {"d1": 1}}', "q1\tx\n", 2, "stands in line 1 already"),
        ("{}", "q1\tx\n", None, "no judgement"),
        ("", "q1\tx\n", None, "empty"),
    ],
)
def test_judgements_are_refused_when_they_cannot_be_read(
    corpus: Path,
    tmp_path: Path,
    judgements: str,
    topics: str | None,
    line: int | None,
    message: str,
) -> None:
    (tmp_path / "qrels.txt").write_text(judgements)
    (tmp_path / "topics.txt").write_text(topics or "")
    with pytest.raises(InputError, match=message) as caught:
        import_gold(
            tmp_path / "qrels.txt",
            corpus,
            tmp_path / "set",
            topics=tmp_path / "topics.txt" if topics else None,
        )
    assert caught.value.line == line


def test_options_of_another_form_are_refused_when_given(
    named, corpus: Path, tmp_path: Path
) -> None:
    source = named({"expected_doc_name_substrings": ["E6"]})
    with pytest.raises(InputError, match="no spreadsheet"):
        import_gold(source, corpus, tmp_path / "set", columns=Columns())
    with pytest.raises(InputError, match="holds its queries"):
        import_gold(source, corpus, tmp_path / "set", topics=source)


# --- the command -----------------------------------------------------------------------------


def test_command_lists_every_unresolved_name_when_some_are(
    assay, named, corpus: Path, tmp_path: Path
) -> None:
    names = [f"unknown{i}" for i in range(40)]
    source = named({"expected_doc_name_substrings": ["E6", *names], "must_include_terms": ["xyz"]})
    done = assay("gold", "import", source, "--corpus", corpus, "-o", tmp_path / "set")
    assert done.code == 0
    assert "1 query (0 aligned, 1 partial, 0 absent), 1 judgement, 4 documents" in done.out
    assert all(f"  {name}: q1\n" in done.out for name in [*names, "xyz"])
    done = assay("gold", "import", source, "--corpus", corpus, "-o", tmp_path / "b", "--json")
    shown = json.loads(done.out)
    assert (shown["form"], shown["queries"], shown["partial"]) == ("named", 1, 1)
    assert shown["missing_names"] == {name: ["q1"] for name in names}
    assert shown["names"] == {"E6": 1}


def test_command_takes_columns_when_a_table_names_them(assay, corpus: Path, tmp_path: Path) -> None:
    source = as_csv(tmp_path / "a.csv")
    options = ("--query-column=Question", "--documents-column=Answer", "--terms-column=Words")
    done = assay(
        "gold", "import", source, "--corpus", corpus, "-o", tmp_path / "set", *options,
        "--type-column=Kind",
    )  # fmt: skip
    assert done.code == 0, done.err
    done = assay("gold", "import", source, "--corpus", corpus, "-o", tmp_path / "set", *options)
    assert done.code == 2
    assert "holds something already" in done.err
    assert done.err.count("\n") == 1


def test_command_reads_a_folder_of_files_when_it_is_the_corpus(assay, tmp_path: Path) -> None:
    papers, out = tmp_path / "papers", tmp_path / "set"
    papers.mkdir()
    (papers / "gefitinib label.md").write_text("# Gefitinib\n\nInterstitial lung disease.\n")
    (papers / "notes.csv").write_text("title,text\nErlotinib,Rash is common.\n")
    (papers / "scan.bin").write_bytes(b"\0")
    source = tmp_path / "questions.csv"
    source.write_text("query,documents\nlung risks,gefitinib label\nskin,Erlotinib\n")
    done = assay("gold", "import", source, "--corpus", papers, "-o", out)
    assert done.code == 0, done.err
    assert f"{out / 'corpus.jsonl'}: the 2 documents read of {papers}" in done.out
    assert "skipped scan.bin: no reader" in done.out
    assert assay("gold", "validate", out).code == 0
    lines = [json.loads(line) for line in (out / "corpus.jsonl").read_text("utf-8").splitlines()]
    assert lines[0]["metadata"]["file_name"] == "gefitinib label.md"
    done = assay("evaluate", out, "--no-track", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["metrics"]["hit@5"]["value"] == 1.0


def test_folder_is_named_when_it_holds_none_of_the_names(assay, tmp_path: Path) -> None:
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "a.txt").write_text("Gefitinib.")
    source = tmp_path / "questions.csv"
    source.write_text("query,documents\nx,imatinib\n")
    done = assay("gold", "import", source, "--corpus", tmp_path / "papers", "-o", tmp_path / "set")
    assert done.code == 2
    assert f"none of its 1 names is in {tmp_path / 'papers'}: imatinib" in done.err


def test_image_is_found_from_the_new_set_when_a_folder_holds_one(assay, tmp_path: Path) -> None:
    papers, out = tmp_path / "papers", tmp_path / "set"
    papers.mkdir()
    (papers / "curve.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    source = tmp_path / "questions.csv"
    source.write_text("query,documents\nsurvival,curve\n")
    done = assay("gold", "import", source, "--corpus", papers, "-o", out)
    assert done.code == 0, done.err
    line = json.loads((out / "corpus.jsonl").read_text("utf-8"))
    assert Path(line["metadata"]["image"]) == (papers / "curve.png").resolve()
    assert assay("gold", "validate", out).code == 0
