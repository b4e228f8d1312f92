"""Which chunks answer a section cue: looked up in the texts once for each cue and chunk."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from retriever.biomed.carried import Carried
from retriever.biomed.mentions import path_blob
from retriever.index.store import Index
from retriever.types import Floats, Integers

__all__ = ["CueHits"]

SUMMARY_CHARACTERS = 200
COLUMNS = ("section", "path", "file_name", "document_name", "source_uri", "content_summary")
UNKNOWN = -1


class CueHits:
    """The cues of one index's chunks, filled as they are asked for: a byte a cue and chunk."""

    def __init__(self, index: Index) -> None:
        self._chunks = index.chunks
        self._hits: dict[str, npt.NDArray[np.int8]] = {}

    @classmethod
    def of(cls, index: Index) -> "CueHits":
        """Return the table of an index, made once a process."""
        return _cue_hits(index.manifest.fingerprint, Carried(index))

    def share(self, cues: Sequence[str], rows: Integers) -> Floats:
        """Return the share of some cues that each chunk has in its section, path or summary."""
        columns = [self._column(cue) for cue in cues]
        unknown = np.unique(rows[np.any([c[rows] == UNKNOWN for c in columns], axis=0)])
        if len(unknown):
            self._look_up(cues, columns, unknown)
        share: Floats = np.sum([column[rows] for column in columns], axis=0) / len(cues)
        return share

    def _column(self, cue: str) -> npt.NDArray[np.int8]:
        if cue not in self._hits:
            self._hits[cue] = np.full(len(self._chunks), UNKNOWN, dtype=np.int8)
        return self._hits[cue]

    def _look_up(
        self, cues: Sequence[str], columns: Sequence[npt.NDArray[np.int8]], rows: Integers
    ) -> None:
        cells = zip(*(self._chunks.values(name, rows) for name in COLUMNS), strict=True)
        blobs = [
            f"{section} {path_blob(*path)} {summary[:SUMMARY_CHARACTERS]}".casefold()
            for section, *path, summary in cells
        ]
        for cue, column in zip(cues, columns, strict=True):
            spoken = cue.replace("_", " ")
            column[rows] = [cue in blob or spoken in blob for blob in blobs]


@lru_cache(maxsize=8)
def _cue_hits(fingerprint: str, index: Carried[Index]) -> CueHits:
    return CueHits(index.value)
