"""Section cues looked up in the texts of chunks."""

import numpy as np
import pytest

from retriever.biomed.cue_hits import CueHits


class Chunks:
    """Stands in for a chunk table: cells by column, and how often a row was read."""

    def __init__(self, cells: list[dict[str, str]]) -> None:
        self.cells = cells
        self.read: list[int] = []

    def __len__(self) -> int:
        return len(self.cells)

    def values(self, column: str, rows: np.ndarray) -> list[str]:
        if column == "section":
            self.read += rows.tolist()
        return [self.cells[row].get(column, "") for row in rows]


class Held:
    """Stands in for an index that holds the chunks."""

    def __init__(self, cells: list[dict[str, str]]) -> None:
        self.chunks = Chunks(cells)


@pytest.fixture
def held() -> Held:
    return Held(
        [
            {"section": "Dosage_Forms"},
            {"file_name": "adverse reactions.pdf", "section": "Other"},
            {"content_summary": "x" * 190 + " DOSAGE forms"},
        ]
    )


def test_share_counts_cues_in_section_path_and_the_head_of_the_summary(held: Held) -> None:
    # the third says "dosage" within its first 200 characters, but not "dosage_forms"
    shares = CueHits(held).share(["dosage", "adverse_reactions"], np.array([0, 1, 2, 1]))  # type: ignore[arg-type]
    assert shares.tolist() == [0.5, 0.5, 0.5, 0.5]
    assert CueHits(held).share(["dosage_forms"], np.array([0, 2])).tolist() == [1.0, 0.0]  # type: ignore[arg-type]


def test_chunk_is_read_once_a_cue_and_again_only_for_another(held: Held) -> None:
    hits = CueHits(held)  # type: ignore[arg-type]
    hits.share(["dosage"], np.array([2, 0]))
    hits.share(["dosage"], np.array([0, 1, 2]))
    assert held.chunks.read == [0, 2, 1]
    hits.share(["other"], np.array([1]))
    assert held.chunks.read == [0, 2, 1, 1]
