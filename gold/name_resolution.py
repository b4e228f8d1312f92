"""Which documents a name stands for: by title, `metadata.name`, file name and id."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gold.model import CorpusDocument
from gold.terms import tokens

__all__ = ["NameIndex"]

Tokens = tuple[str, ...]


@dataclass(slots=True)
class NameIndex:
    """The names of a corpus, by token.

    A name stands for a document when its tokens (runs of letters and digits, in any case) follow
    one another in the document's title, `metadata.name`, `metadata.file_name` or id: `sunitinib`
    in "Sunitinib label", `E6` in "ICH E6(R2)", never `MET` in "metformin". What parts tokens does
    not count: `label_sunitinib` stands in "Label: Sunitinib", not in "Sunitinib label".
    """

    document_ids: list[str] = field(default_factory=list)
    _names: list[tuple[Tokens, ...]] = field(default_factory=list)
    _by_token: dict[str, list[int]] = field(default_factory=dict)
    _by_id: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, documents: Iterable[CorpusDocument]) -> NameIndex:
        """Return the index of a corpus. Only names are kept."""
        index = cls()
        for document in documents:
            index._add(document)
        return index

    def resolve(self, name: str, *, whole_first: bool = False) -> tuple[str, ...]:
        """Return the ids of the documents that a name stands for, in the corpus' order.

        `whole_first`: an id as it is written is that document alone, and of other names those that
        are equal to the whole of a document's name go before those that are part of one. Without
        it every document counts whose name holds the name.
        """
        if whole_first and name in self._by_id:
            return (name,)
        wanted = tokens(name)
        if not wanted:
            return ()
        rarest = min((self._by_token.get(token, []) for token in wanted), key=len)
        places = [place for place in rarest if any(_holds(n, wanted) for n in self._names[place])]
        if whole_first:
            places = [place for place in places if wanted in self._names[place]] or places
        return tuple(self.document_ids[place] for place in places)

    def _add(self, document: CorpusDocument) -> None:
        place = len(self.document_ids)
        given = (document.metadata.get(key) for key in ("name", "file_name"))
        texts = [document.title, *(text for text in given if isinstance(text, str))]
        names = tuple(dict.fromkeys(filter(None, map(tokens, [*texts, document.document_id]))))
        self.document_ids.append(document.document_id)
        self._names.append(names)
        self._by_id[document.document_id] = place
        for token in dict.fromkeys(token for name in names for token in name):
            self._by_token.setdefault(token, []).append(place)


def _holds(name: Tokens, wanted: Tokens) -> bool:
    size = len(wanted)
    return any(name[start : start + size] == wanted for start in range(len(name) - size + 1))
