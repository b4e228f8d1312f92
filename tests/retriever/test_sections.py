"""Headings of articles, structured abstracts and drug labels."""

import json
import os
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever.ingest.sections import Section, section_name, split_sections

DATA = Path(os.environ.get("ASSAY_DATA", Path(__file__).resolve().parents[2] / "../shared/data"))


def named_parts(text: str) -> list[tuple[str, str]]:
    return [(part.name, text[part.start : part.end]) for part in split_sections(text)]


def names(text: str) -> list[str]:
    return [part.name for part in split_sections(text)]


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("Background", "introduction"),
        ("AIMS", "introduction"),
        ("Objectives:", "introduction"),
        ("Patients and Methods", "methods"),
        ("2. Materials & Methods", "methods"),
        ("Design, setting, and participants", "methods"),
        ("III. Findings", "results"),
        ("Conclusions and relevance", "conclusion"),
        ("Interpretation", "conclusion"),
        ("Methods and results", "methods results"),
        ("Results/Discussion", "results discussion"),
        ("1 INDICATIONS AND USAGE", "indications_and_usage"),
        ("4.1 Therapeutic indications", "indications_and_usage"),
        ("5 WARNINGS AND PRECAUTIONS", "warnings"),
        ("4.4 Special warnings and precautions for use", "warnings"),
        ("2) Dosage and Administration", "dosage"),
        ("4.2 Posology and method of administration", "dosage"),
        ("Contraindications", "contraindications"),
        ("4.8 Undesirable effects", "adverse_reactions"),
        ("7. Drug interactions", "drug_interactions"),
        ("8 USE IN SPECIFIC POPULATIONS", "use_in_specific_populations"),
        ("10 OVERDOSAGE", "overdosage"),
        ("11 DESCRIPTION", "description"),
        ("12 CLINICAL PHARMACOLOGY", "clinical_pharmacology"),
        ("14 CLINICAL STUDIES", "clinical_studies"),
        ("16 HOW SUPPLIED/STORAGE AND HANDLING", "how_supplied"),
        ("WARNING", "warnings"),
        ("Boxed Warning", "boxed_warning"),
        ("WARNING: LACTIC ACIDOSIS", "warnings"),
        ("BOXED WARNING: BLEEDING RISK:", "boxed_warning"),
        ("5.1 Hepatotoxicity", "hepatotoxicity"),
        ("B) Study sites", "study_sites"),
        ("Phase 2 study", "phase_2_study"),
        ("5-HT receptors", "5_ht_receptors"),
        ("TGF-β signalling", "tgf_β_signalling"),
        ("  ", ""),
    ],
)
def test_heading_is_normalised(heading: str, name: str) -> None:
    assert section_name(heading) == name


def test_text_without_headings_is_one_unnamed_section() -> None:
    text = "Patients improved. The results: fewer relapses, and methods of care."
    assert split_sections(text) == [Section("", 0, len(text))]
    assert split_sections("") == [Section("", 0, 0)]


def test_markdown_headings_split_and_the_lines_before_stay_unnamed() -> None:
    text = "By A. Smith\n\n# Introduction\nWhy.\n## 2.1 Study sites ##\nWhere.\n### Results\nWhat."
    assert named_parts(text) == [
        ("", "By A. Smith\n\n"),
        ("introduction", "# Introduction\nWhy.\n## 2.1 Study sites ##\nWhere.\n"),
        ("results", "### Results\nWhat."),
    ]


def test_heading_is_one_when_a_known_head_stands_in_it() -> None:
    assert names("# Trial 7. Results: early data\nx") == ["trial_7_results_early_data"]


def test_blank_lines_before_the_first_heading_belong_to_it() -> None:
    assert named_parts("\n \n# Methods\nx") == [("methods", "\n \n# Methods\nx")]


def test_unknown_heading_gets_its_words_when_it_stands_on_the_level_of_a_known_one() -> None:
    text = "## Methods\na\n## Ethics Approval\nb\n### Board\nc\n## Results\nd"
    assert names(text) == ["methods", "ethics_approval", "board", "results"]


def test_unknown_heading_belongs_to_the_known_one_that_its_number_continues() -> None:
    text = (
        "5 WARNINGS AND PRECAUTIONS\n5.1 HEPATIC TOXICITY\nLiver.\n5.2 QT PROLONGATION\nHeart.\n"
        "6 ADVERSE REACTIONS\nRash.\n50.1 OTHER MATTERS\nEnd."
    )
    assert names(text) == ["warnings", "adverse_reactions", "other_matters"]


def test_known_heading_below_another_starts_its_own_section_and_gives_way_again() -> None:
    text = "## Warnings\na\n### Pregnancy\nb\n### Embryo toxicity\nc\n## Storage\nd"
    assert names(text) == ["warnings", "pregnancy", "warnings", "storage"]


@pytest.mark.parametrize(
    "line", ["Results", "RESULTS:", "3. results", "IV. Results", "**Results**", "3.1 RESULTS "]
)
def test_known_heading_on_a_line_of_its_own_splits(line: str) -> None:
    assert named_parts(f"Before.\n{line}\r\nAfter.") == [
        ("", "Before.\n"),
        ("results", f"{line}\r\nAfter."),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "results.",
        "Results of the second trial",
        "EGFR",
        "HER2 ERBB2",
        "COVID-19",
        "ACGTACGTTAGC",
        "CCOCCN",
        "AUC CMAX",
        "SMILES CN(C)C(=N)NC",
        "TABLE | PLACEBO",
        "DO NOT FREEZE THE VACCINE.",
        "I",
    ],
)
def test_line_that_is_no_heading_does_not_split(line: str) -> None:
    assert names(f"Before.\n{line}\nAfter.") == [""]


def test_short_line_in_capitals_is_a_heading() -> None:
    assert names("Before.\nPATIENT STORIES\nAfter.\nFUROSEMIDE\nMore.") == [
        "",
        "patient_stories",
        "furosemide",
    ]


def test_run_in_heads_split_a_structured_abstract() -> None:
    text = (
        "Background: Statins are used. Methods: We pooled trials (n = 5). RESULTS: Fewer events "
        "[1]. PATIENTS AND METHODS: Then others.\nconclusions: They work."
    )
    assert named_parts(text) == [
        ("introduction", "Background: Statins are used. "),
        ("methods", "Methods: We pooled trials (n = 5). "),
        ("results", "RESULTS: Fewer events [1]. "),
        ("methods", "PATIENTS AND METHODS: Then others.\n"),
        ("conclusion", "conclusions: They work."),
    ]


def test_capitals_without_colon_split_when_a_sentence_starts_with_them() -> None:
    text = (
        "OBJECTIVE To compare. DESIGN, SETTING, AND PARTICIPANTS A 12-week trial. "
        "METHODS AND RESULTS 50 patients. CONCLUSION HIV rose. FUNDING None."
    )
    assert names(text) == ["introduction", "methods", "methods results", "conclusion", "funding"]


def test_numbered_label_heading_splits_when_the_text_has_no_line_breaks() -> None:
    text = "7 DRUG INTERACTIONS 7.1 Azoles Avoid. 12 CLINICAL PHARMACOLOGY 12.1 Mechanism It binds."
    assert names(text) == ["drug_interactions", "clinical_pharmacology"]


@pytest.mark.parametrize(
    "text",
    [
        "We report our results: fewer relapses.",
        "They were cured. results: none died.",
        "Take it daily. Side effects: nausea and rash.",
        "Read all. WARNINGS SHOULD be heeded. RESULTS OF THE TRIAL Were good.",
        "Ratios fell. RESULTS:0.5 is no head. Methodsology: neither.",
        "It was the METHODS We used.",
        "See also Methods: the pooled trials.",
    ],
)
def test_prose_does_not_split_when_it_mentions_a_heading(text: str) -> None:
    assert names(text) == [""]


def test_neighbours_of_one_name_are_one_section() -> None:
    assert names("Aims: To see. Background: Unknown. Setting: Ward. Design: Cohort.") == [
        "introduction",
        "methods",
    ]


HEADED = st.lists(
    st.one_of(
        st.text(max_size=20),
        st.sampled_from(
            [
                "\n",
                ". ",
                "\n\n",
                "# ",
                "Methods",
                "RESULTS: ",
                "5.1 ",
                "\nWARNINGS\n",
                "\r\n",
                "A b",
            ]
        ),
    ),
    max_size=12,
).map("".join)


@given(text=HEADED)
def test_sections_cover_the_text_without_gaps_and_change_name(text: str) -> None:
    sections = split_sections(text)
    assert sections[0].start == 0
    assert sections[-1].end == len(text)
    for before, after in pairwise(sections):
        assert before.start < before.end == after.start
        assert before.name != after.name


@pytest.mark.data
@pytest.mark.skipif(not (DATA / "scifact").exists(), reason="ASSAY_DATA has no scifact")
def test_structured_abstracts_of_scifact_split_into_their_parts() -> None:
    with (DATA / "scifact/corpus.jsonl").open(encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    plain = [
        re.search(r"(?:^|[.!?] )RESULTS [A-Z0-9]", text) is not None
        and re.search(r"(?:^|[.!?] )CONCLUSIONS? [A-Z0-9]", text) is not None
        for text in texts
    ]
    found = [{word for name in names(text) for word in name.split()} for text in texts]
    # 712 abstracts hold both heads by a plain search; two of those begin "RESULTS AND LIMITATIONS"
    # and "CONCLUSIONS AND CLINICAL IMPORTANCE", which are no known headings.
    assert sum(plain) == 712
    split = [{"results", "conclusion"} <= parts for parts in found]
    assert sum(p and s for p, s in zip(plain, split, strict=True)) == 710
    known = {"introduction", "methods", "results", "discussion", "conclusion", "abstract"}
    assert set().union(*found) <= known | {"funding", "trial_registration", "description"}
