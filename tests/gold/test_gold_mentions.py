"""Linking gold sets: what a line may say, each fault with its line, the bundled set."""

import json
from collections import Counter
from pathlib import Path

import pytest

import gold
from gold import GoldMention, InputError, is_linking, load_mentions, stats, validate

BUNDLED = Path(gold.__file__).parent / "linking"


def write(folder: Path, *records: object) -> Path:
    folder.mkdir(exist_ok=True)
    lines = [json.dumps(record, ensure_ascii=False) for record in records]
    (folder / "mentions.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return folder


ONE = {"_id": "m1", "mention": "MI", "context": "an MI", "entity": "d:1", "metadata": {"type": "x"}}
NIL = {"_id": "m2", "mention": "zz", "entity": None}


def test_set_is_loaded_with_nil_as_none(tmp_path: Path) -> None:
    found = load_mentions(write(tmp_path / "g", ONE, NIL))
    assert found.mentions == {
        "m1": GoldMention("m1", "MI", "an MI", "d:1", "x"),
        "m2": GoldMention("m2", "zz", "", None),
    }
    assert (found.name, found.split) == ("g", "mentions")


def test_digest_follows_content_and_not_order(tmp_path: Path) -> None:
    one = load_mentions(write(tmp_path / "a", ONE, NIL)).digest
    assert load_mentions(write(tmp_path / "b", NIL, ONE)).digest == one
    assert load_mentions(write(tmp_path / "c", {**ONE, "entity": None}, NIL)).digest != one


def test_directory_is_a_linking_set_by_its_file(tmp_path: Path) -> None:
    assert is_linking(write(tmp_path / "a", ONE))
    assert not is_linking(tmp_path)


@pytest.mark.parametrize(
    ("record", "code", "message"),
    [
        ({**ONE, "_id": ""}, "bad-id", '"_id" is an empty text'),
        ({**ONE, "_id": "a b"}, "id-whitespace", "holds a space"),
        ({**ONE, "_id": "m0"}, "duplicate-id", "stands in line 1 already"),
        ({**ONE, "mention": " "}, "empty-query", "has no text"),
        ({**ONE, "mention": 3}, "bad-field", "is 3, not a text"),
        ({**ONE, "mention": "mi"}, "mention-not-in-context", "does not hold 'mi'"),
        ({"_id": "m1", "mention": "MI"}, "bad-field", 'no "entity"'),
        ({**ONE, "entity": ""}, "bad-field", "\"entity\" is ''"),
        ({**ONE, "entity": 7}, "bad-field", '"entity" is 7'),
        ({**ONE, "entity": "d 1"}, "id-whitespace", "holds a space"),
        ({**ONE, "metadata": {"type": 1}}, "bad-field", '"type" is 1'),
    ],
)
def test_fault_is_refused_and_listed_with_its_line(
    tmp_path: Path, record: object, code: str, message: str
) -> None:
    folder = write(tmp_path / "g", {**NIL, "_id": "m0"}, record)
    with pytest.raises(InputError, match=r"mentions\.jsonl:2: ") as caught:
        load_mentions(folder)
    assert message in str(caught.value)
    report = validate(folder)
    assert not report.ok
    assert (report.problems[0].line, report.problems[0].code) == (2, code)


def test_stats_count_mentions_nil_and_types(tmp_path: Path) -> None:
    assert stats(write(tmp_path / "g", ONE, NIL)) == {
        "mentions": 2,
        "nil": 1,
        "with_context": 1,
        "types": {"": 1, "x": 1},
    }


def test_empty_set_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mentions.jsonl").write_text("")
    with pytest.raises(InputError, match="no mention"):
        load_mentions(tmp_path)
    assert [problem.code for problem in validate(tmp_path).problems] == ["empty-file"]


def test_bundled_set_is_valid_large_enough_and_of_the_bundled_lexicon() -> None:
    report = validate(BUNDLED)
    assert report.ok
    assert report.problems == ()
    assert report.counts["mentions"] >= 60
    assert report.counts["nil"] >= 10
    lexicon = Path(gold.__file__).parents[1] / "retriever" / "biomed" / "data" / "lexicon.json"
    known = {record["id"] for record in json.loads(lexicon.read_text("utf-8"))}
    mentions = load_mentions(BUNDLED).mentions.values()
    assert {m.entity_id for m in mentions if m.entity_id} <= known
    types = Counter(mention.type for mention in mentions)
    assert types["nil"] == report.counts["nil"]
    assert len(types) >= 8
