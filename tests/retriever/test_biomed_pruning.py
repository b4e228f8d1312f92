"""Pruning by an annotated sample: what falls, what stays, and what a bad sample is told."""

import json
from pathlib import Path

import pytest

from retriever.biomed.lexicon import Entity, Lexicon
from retriever.biomed.pruning import Annotated, prune, read_sample
from retriever.files import InputError


def annotated(text: str, *mentions: str) -> Annotated:
    """A text with the first occurrence of each mention marked."""
    starts = [(text.index(mention), mention) for mention in mentions]
    return Annotated(text, frozenset((start, start + len(mention)) for start, mention in starts))


LEXICON = Lexicon(
    (
        Entity("pb", "lead", ("lead acetate",), is_drug=True),
        Entity("asp", "aspirin", ("ASA",), is_drug=True),
        Entity("nib", "sunitinib"),
    )
)


def test_term_falls_when_its_precision_is_below_the_threshold() -> None:
    # lead: marked in 1 of 3 occurrences, .33; aspirin in 2 of 2; lead acetate in 1 of 1.
    sample = [
        annotated("lead poisoning", "lead"),
        annotated("they lead to aspirin", "aspirin"),
        annotated("may lead; aspirin and lead acetate", "aspirin", "lead acetate"),
    ]
    found = prune(LEXICON, sample)
    assert [(d.term, d.occurrences, d.correct, d.entity_ids) for d in found.dropped] == [
        ("lead", 3, 1, ("pb",))
    ]
    assert round(found.dropped[0].precision, 4) == 0.3333
    assert found.removed == ()
    assert found.lexicon.entity("pb") == Entity("pb", "lead acetate", is_drug=True)
    assert found.lexicon.entity("asp") == LEXICON.entity("asp")


def test_precision_at_the_threshold_is_enough() -> None:
    sample = [annotated("lead", "lead"), annotated("a lead")]
    assert prune(LEXICON, sample, below=0.5).dropped == ()
    assert len(prune(LEXICON, sample, below=0.51).dropped) == 1


def test_term_stays_when_it_is_seen_too_seldom_or_never() -> None:
    sample = [annotated("a lead, aspirin", "aspirin")]
    assert prune(LEXICON, sample).dropped == ()
    assert [d.term for d in prune(LEXICON, sample, occurrences=1).dropped] == ["lead"]


def test_shorter_term_is_judged_when_the_longer_one_has_fallen() -> None:
    sample = [annotated("lead acetate is a term, lead acetate too", "is")]
    found = prune(LEXICON, sample)
    assert [d.term for d in found.dropped] == ["lead", "lead acetate"]
    assert found.removed == ("pb",)
    assert "pb" not in found.lexicon


def test_drug_stays_a_drug_when_the_name_that_said_so_falls() -> None:
    lexicon = Lexicon((Entity("n", "sunitinib", ("Sutent",)),))
    found = prune(lexicon, [annotated("sunitinib sunitinib", "sun")])
    assert found.lexicon.entity("n") == Entity("n", "Sutent", is_drug=True)


def test_short_terms_are_counted_in_their_own_case() -> None:
    lexicon = Lexicon((Entity("a", "MET"), Entity("b", "Met")))
    found = prune(lexicon, [annotated("MET MET", "MET"), annotated("Met and Met")])
    assert [d.term for d in found.dropped] == ["Met"]
    assert [e.id for e in found.lexicon.entities] == ["a"]


def test_pruning_twice_changes_nothing_more() -> None:
    sample = [annotated("lead acetate lead lead", "acetate"), annotated("aspirin")]
    once = prune(LEXICON, sample).lexicon
    assert prune(once, sample).lexicon == once


def write(path: Path, *records: object) -> Path:
    path.write_text("\n".join(map(json.dumps, records)) + "\n", "utf-8")
    return path


def test_sample_is_read_with_all_mentions_or_those_of_a_type(tmp_path: Path) -> None:
    mentions = [{"start": 0, "end": 2, "type": "A", "id": 7}, {"start": 3, "end": 4, "type": "B"}]
    path = write(tmp_path / "s.jsonl", {"text": "ab c", "mentions": mentions, "split": "dev"})
    assert read_sample(path) == (Annotated("ab c", frozenset({(0, 2), (3, 4)})),)
    assert read_sample(path, ["B"]) == (Annotated("ab c", frozenset({(3, 4)})),)


@pytest.mark.parametrize(
    ("record", "types", "message"),
    [
        ({"text": "ab"}, [], ":1: expected text and mentions"),
        ({"text": 1, "mentions": []}, [], ":1: expected text and mentions"),
        ({"text": "ab", "mentions": [{"start": 0, "end": 3}]}, [], ":1: a mention from 0 to 3"),
        ({"text": "ab", "mentions": [{"start": 1, "end": 1}]}, [], "from 1 to 1"),
        ({"text": "ab", "mentions": [{"start": "0", "end": 1}]}, [], "from '0' to 1"),
        ({"text": "ab", "mentions": [{"start": True, "end": 2}]}, [], "from True to 2"),
        ({"text": "ab", "mentions": ["ab"]}, [], "from None to None"),
        (
            {"text": "ab", "mentions": [{"start": 0, "end": 1}]},
            ["A"],
            ":1: a mention without a typ",
        ),
        ({"text": "ab", "mentions": []}, [], "no mention in the sample"),
    ],
)
def test_bad_sample_is_told_its_line(
    tmp_path: Path, record: object, types: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_sample(write(tmp_path / "s.jsonl", record), types)


@pytest.mark.parametrize(
    ("below", "occurrences"), [(-0.1, 1), (1.1, 1), (float("nan"), 1), (0.5, 0)]
)
def test_senseless_thresholds_are_refused(below: float, occurrences: int) -> None:
    with pytest.raises(ValueError, match="expected 0 <= below"):
        prune(LEXICON, [], below=below, occurrences=occurrences)
