"""The bundled gold set: its files, its ids, its chemistry and its judgements."""

import csv
import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from rdkit import Chem
from rdkit.Chem.rdMolDescriptors import CalcMolFormula

ROOT = Path(__file__).resolve().parents[2]
SMOKE = ROOT / "gold" / "smoke"
DATA = Path(os.environ.get("ASSAY_DATA", ROOT / "../shared/data"))
STRUCTURES = DATA / "compounds" / "structures.tsv"

needs_structures = pytest.mark.skipif(
    not STRUCTURES.is_file(),
    reason="the public compound tables are absent; point ASSAY_DATA at them",
)

ID_PREFIX = {
    "label": "label-",
    "article": "article-",
    "trial": "trial-",
    "compound": "compound-",
    "guidance": "guidance-",
    "general": "corp-",
    "image": "image-",
}
QUERY_TYPES = {
    "competitive_intelligence",
    "compound_match",
    "regulatory",
    "combination_therapy",
    "pipeline",
    "literature_review",
    "clinical_trial",
    "mechanism",
    "general",
    "image",
}
# Queries by type in the source system's own aligned set; ours holds at least as many of each.
SOURCE_MIX = {
    "competitive_intelligence": 16,
    "compound_match": 16,
    "regulatory": 10,
    "combination_therapy": 3,
    "pipeline": 1,
}
WORKFLOWS = {"chemical", "regulatory", "combination", "drug_entity", "general"}
GAPS = {
    "gap-lexicon-gefitinib",
    "gap-structure-axitinib",
    "gap-route-tivozanib",
    "gap-alias-capmatinib",
    "gap-alias-tepotinib",
    "gap-related-everolimus",
}
METADATA = {"name", "kind", "tags", "smiles", "image", "domain"}
# A table that names a compound more than once is trusted in this order: the dictionary of drug
# names is known to give salts, and another compound now and then.
SOURCES = ("pkidb", "chembl", "drug_ner")

Record = dict[str, Any]


@cache
def records(file: str) -> tuple[Record, ...]:
    lines = (SMOKE / file).read_text(encoding="utf-8").splitlines()
    return tuple(json.loads(line) for line in lines)


@cache
def documents() -> Mapping[str, Record]:
    return {document["_id"]: document for document in records("corpus.jsonl")}


@cache
def judgements() -> Mapping[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for line in (SMOKE / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query_id, document_id, grade = line.split("\t")
        found.setdefault(query_id, {})[document_id] = int(grade)
    return found


def inchikey(smiles: str) -> str:
    molecule = Chem.MolFromSmiles(smiles)
    assert molecule is not None, smiles
    return str(Chem.MolToInchiKey(molecule))  # type: ignore[no-untyped-call]


def stands_in(term: str, text: str) -> bool:
    pattern = rf"(?<!\w){re.escape(term)}(?!\w)"
    return re.search(pattern, text, re.IGNORECASE) is not None


def cards() -> list[Record]:
    return [d for d in documents().values() if d["metadata"]["kind"] == "compound"]


def five_grams(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[start : start + 5]) for start in range(len(words) - 4)}


def jaccard(left: set[tuple[str, ...]], right: set[tuple[str, ...]]) -> float:
    return len(left & right) / len(left | right)


# --- files -----------------------------------------------------------------------------------


CONFIGURATIONS = ("gaps.yaml", "all-stages.yaml", "gaps-lexicon.json")
FILES = ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv", "gold.yaml", *CONFIGURATIONS)


@pytest.mark.parametrize("file", FILES)
def test_file_is_plain_utf8_with_lf_when_read_as_bytes(file: str) -> None:
    raw = (SMOKE / file).read_bytes()
    assert "\ufffd" not in raw.decode("utf-8")
    assert not raw.startswith(b"\xef\xbb\xbf")
    assert b"\r" not in raw
    assert raw.endswith(b"\n")
    assert b"\n\n" not in raw


@pytest.mark.parametrize("file", ["corpus.jsonl", "queries.jsonl"])
def test_text_is_readable_in_the_file_when_not_ascii(file: str) -> None:
    assert "\\u" not in (SMOKE / file).read_text(encoding="utf-8")


def test_settings_say_what_each_grade_means_when_loaded() -> None:
    settings = yaml.safe_load((SMOKE / "gold.yaml").read_text(encoding="utf-8"))
    assert settings["name"] == "smoke"
    assert isinstance(settings["version"], str)
    assert settings["level"] == "document"
    assert settings["success"] == "any"
    assert settings["coverage_threshold"] == 1
    assert settings["relevant_from"] == 1
    assert settings["cutoffs"] == [5, 10, 100]
    assert set(settings["grades"]) == {0, 1, 2}
    assert settings["licence"].startswith("CC0-1.0")


def test_readme_states_the_counts_when_the_set_changes() -> None:
    readme = (SMOKE / "README.md").read_text(encoding="utf-8")
    total = sum(len(grades) for grades in judgements().values())
    counts = f"{len(documents())} documents, {len(judgements())} queries, {total} graded judgements"
    assert counts in " ".join(readme.split())
    kinds = Counter(document["metadata"]["kind"] for document in documents().values())
    types = Counter(query["metadata"]["type"] for query in records("queries.jsonl"))
    for name, count in [*kinds.items(), *types.items()]:
        # Any row will do, since "general" is both a family and a type.
        rows = re.findall(rf"^\| {name} \| (\d+) \|", readme, re.MULTILINE)
        assert str(count) in rows, name


# --- documents -------------------------------------------------------------------------------


def test_corpus_holds_every_family_when_counted() -> None:
    kinds = Counter(document["metadata"]["kind"] for document in documents().values())
    assert len(records("corpus.jsonl")) == len(documents()) >= 200
    assert set(kinds) == set(ID_PREFIX)
    assert 0.05 <= kinds["general"] / len(documents()) <= 0.15


def test_document_is_complete_when_read() -> None:
    for document_id, document in documents().items():
        metadata = document["metadata"]
        assert set(document) == {"_id", "title", "text", "metadata"}, document_id
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", document_id)
        assert document_id.startswith(ID_PREFIX[metadata["kind"]])
        assert document["title"].strip(), document_id
        assert metadata["name"].strip(), document_id
        assert metadata["tags"], document_id
        assert set(metadata) <= METADATA, document_id
        assert 60 <= len(document["text"].split()) <= 250, document_id


def test_names_and_titles_are_unique_when_compared() -> None:
    for field in (
        Counter(document["title"] for document in documents().values()),
        Counter(document["metadata"]["name"] for document in documents().values()),
    ):
        assert [text for text, times in field.items() if times > 1] == []


def test_documents_differ_when_their_five_grams_are_compared() -> None:
    grams = {key: five_grams(document["text"]) for key, document in documents().items()}
    alike = [
        (left, right)
        for left, right in combinations(grams, 2)
        if jaccard(grams[left], grams[right]) >= 0.3
    ]
    assert alike == []


def test_jaccard_counts_shared_grams_when_texts_overlap() -> None:
    # "a b c d e f" has abcde, bcdef; "a b c d e g" has abcde, bcdeg: 1 shared of 3.
    assert jaccard(five_grams("a b c d e f"), five_grams("A b c d e g")) == pytest.approx(1 / 3)


# --- structures ------------------------------------------------------------------------------


def test_one_card_lacks_a_structure_when_counted() -> None:
    assert [card["_id"] for card in cards() if "smiles" not in card["metadata"]] == [
        "compound-axitinib"
    ]
    assert all(
        document["metadata"]["kind"] == "compound"
        for document in documents().values()
        if "smiles" in document["metadata"]
    )


def test_card_without_structure_gives_none_when_its_text_is_parsed() -> None:
    # Brackets or bond signs are what a structure of this size cannot be written without.
    tokens = [
        t for t in documents()["compound-axitinib"]["text"].split() if re.search(r"[(=\[]", t)
    ]
    assert [token for token in tokens if "C" in token and "c" in token] == []


def test_structure_stands_in_the_text_when_the_card_has_one() -> None:
    with_structure = [card for card in cards() if "smiles" in card["metadata"]]
    shown = [card for card in with_structure if card["metadata"]["smiles"] in card["text"].split()]
    assert len(shown) >= 0.8 * len(with_structure)


def test_stated_formula_and_key_are_right_when_computed_from_the_structure() -> None:
    checked = 0
    for card in cards():
        if "smiles" not in card["metadata"]:
            continue
        molecule = Chem.MolFromSmiles(card["metadata"]["smiles"])
        assert molecule is not None, card["_id"]
        formulas = re.findall(r"\bC\d+H\d+[A-Z][A-Za-z0-9]*\b", card["text"])
        keys = re.findall(r"\b[A-Z]{14}-[A-Z]{10}-[A-Z]\b", card["text"])
        assert set(formulas) <= {CalcMolFormula(molecule)}, card["_id"]
        assert set(keys) <= {inchikey(card["metadata"]["smiles"])}, card["_id"]
        checked += len(formulas) + len(keys)
    assert checked >= 15


@cache
def parent_keys() -> Mapping[str, Mapping[str, str]]:
    """Parent InChIKeys by compound name and source; of repeats within a source the first stands."""
    found: dict[str, dict[str, str]] = {}
    with STRUCTURES.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            found.setdefault(row["name"].lower(), {}).setdefault(
                row["source"], row["parent_inchikey"]
            )
    return found


@needs_structures
def test_structure_is_that_of_its_name_when_compared_with_public_tables() -> None:
    compared = 0
    for card in cards():
        by_source = parent_keys().get(card["_id"].removeprefix("compound-"), {})
        expected = next((by_source[source] for source in SOURCES if source in by_source), None)
        if expected is None or "smiles" not in card["metadata"]:
            continue
        assert inchikey(card["metadata"]["smiles"]) == expected, card["_id"]
        compared += 1
    assert compared >= 20


def test_structure_in_a_query_is_its_answer_when_written_another_way() -> None:
    asked = 0
    for query in records("queries.jsonl"):
        for token in query["text"].split():
            if not re.search(r"[Cc]\(|=O|c1|C1", token):
                continue
            asked += 1
            answers = [key for key, grade in judgements()[query["_id"]].items() if grade == 2]
            structures = [documents()[key]["metadata"]["smiles"] for key in answers]
            assert [inchikey(smiles) for smiles in structures] == [inchikey(token)], query["_id"]
            assert token not in structures, "a plain text match must not answer it"
    assert asked >= 6


# --- queries and judgements ------------------------------------------------------------------


def test_queries_cover_every_type_when_counted() -> None:
    queries = records("queries.jsonl")
    types = Counter(query["metadata"]["type"] for query in queries)
    assert len({query["_id"] for query in queries}) == len(queries) >= 60
    assert set(types) == QUERY_TYPES
    assert {name: min(types[name], count) for name, count in SOURCE_MIX.items()} == SOURCE_MIX
    assert min(types[name] for name in QUERY_TYPES - {"pipeline"}) >= 3


def test_query_is_complete_when_read() -> None:
    for query in records("queries.jsonl"):
        metadata = query["metadata"]
        assert set(query) == {"_id", "text", "metadata"}
        assert query["text"].strip() == query["text"] != ""
        assert metadata["workflow"] in WORKFLOWS, query["_id"]
        assert metadata["role"], query["_id"]
        assert isinstance(metadata["critical"], bool), query["_id"]
        assert metadata["expected_terms"], query["_id"]
        assert metadata["why"].endswith("."), query["_id"]


def test_every_judgement_is_justified_when_a_query_is_read() -> None:
    for query in records("queries.jsonl"):
        reasons = query["metadata"]["labels"]
        assert set(reasons) == set(judgements()[query["_id"]]), query["_id"]
        assert all(reason.endswith(".") and len(reason.split()) >= 3 for reason in reasons.values())
    reasons = [r for q in records("queries.jsonl") for r in q["metadata"]["labels"].values()]
    assert len(set(reasons)) == len(reasons)  # what fits everything would fit nothing


def test_pictures_are_named_and_described_when_a_figure_is_read() -> None:
    figures = [d for d in documents().values() if d["metadata"]["kind"] == "image"]
    images = [figure["metadata"]["image"] for figure in figures]
    assert len(set(images)) == len(images) >= 6
    assert sorted(images) == sorted(f"images/{path.name}" for path in (SMOKE / "images").iterdir())
    for image in images:
        head = (SMOKE / image).read_bytes()[:8]
        assert head == b"\x89PNG\r\n\x1a\n", image
    asked = [q for q in records("queries.jsonl") if q["metadata"]["type"] == "image"]
    for query in asked:
        best = [key for key, grade in judgements()[query["_id"]].items() if grade == 2]
        assert [documents()[key]["metadata"]["kind"] for key in best] == ["image"], query["_id"]


def test_query_texts_are_distinct_when_case_is_ignored() -> None:
    texts = Counter(query["text"].casefold() for query in records("queries.jsonl"))
    assert max(texts.values()) == 1


def test_gap_queries_name_what_is_missing_when_listed() -> None:
    gaps = {
        q["_id"]: q["metadata"]["gap"] for q in records("queries.jsonl") if "gap" in q["metadata"]
    }
    assert set(gaps) == GAPS
    for query_id, gap in gaps.items():
        assert set(gap) == {"class", "subclass", "cause", "mend"}, query_id
        drug = query_id.rsplit("-", 1)[1]
        for document_id in judgements()[query_id]:
            document = documents()[document_id]
            assert drug not in document["metadata"]["name"].lower(), document_id
            assert drug not in document["title"].lower(), document_id
            # By its structure alone, where the lexicon's structure is what is missing.
            by_structure = query_id.startswith("gap-alias-")
            assert (drug in document["text"].lower()) != by_structure, document_id


def test_judgements_are_sane_when_read() -> None:
    lines = (SMOKE / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()
    pairs = [tuple(line.split("\t")[:2]) for line in lines[1:]]
    assert lines[0] == "query-id\tcorpus-id\tscore"
    assert all(line.count("\t") == 2 for line in lines)
    assert len(set(pairs)) == len(pairs)
    assert set(judgements()) == {query["_id"] for query in records("queries.jsonl")}
    for query_id, grades in judgements().items():
        assert 1 <= len(grades) <= 4, query_id
        assert set(grades) <= set(documents()), query_id
        assert set(grades.values()) <= {1, 2}, query_id
        assert 2 in grades.values(), query_id


def test_expected_term_stands_in_a_relevant_document_when_looked_up() -> None:
    missing = [
        (query["_id"], term)
        for query in records("queries.jsonl")
        for term in query["metadata"]["expected_terms"]
        if not any(stands_in(term, documents()[key]["text"]) for key in judgements()[query["_id"]])
    ]
    assert missing == []


def test_term_is_found_on_token_boundaries_only_when_matched() -> None:
    assert stands_in("MET", "a met inhibitor")
    assert not stands_in("MET", "metastatic")
    assert not stands_in("EGFR", "VEGFR2")
