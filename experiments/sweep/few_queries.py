"""On how few queries the choice among candidates rests, and what can be told apart there.

Validation holds about a fifth of the queries, and the mean over it chooses. One query that goes
from nothing to a full score moves a mean of n by 1 / n. Few are they where that is more than the
queries judged can tell apart: one query of chance then outweighs a gain that the verdict would
find. Fewer than six are few in any case, since no outcome on them is significant.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from experiments.comparison.power import smallest_p
from experiments.counting import counted
from experiments.sweep.selection import ALPHA, smallest_difference

__all__ = ["ChoiceResolution", "choice_resolution"]


@dataclass(frozen=True)
class ChoiceResolution:
    """What the queries that choose can tell apart; differences in the objective's unit.

    Of several folds, `fewest` and `most` queries choose in one; `judged` are all that are judged.
    `one_query` is how far one of `fewest` can move their mean. `told_apart` is the true difference
    that `fewest` would show with probability 0.8 at level 0.05, `judged_told_apart` that of the
    `judged`; None where that is unknown or none could be shown.
    """

    fewest: int
    most: int
    judged: int
    one_query: float
    told_apart: float | None
    judged_told_apart: float | None

    @property
    def few(self) -> bool:
        """Whether one query alone may decide what the judged ones could not tell apart."""
        if smallest_p(self.fewest) >= ALPHA:
            return True
        return self.judged_told_apart is not None and self.one_query > self.judged_told_apart

    @property
    def words(self) -> str:
        """The same as a sentence, without its full stop."""
        folds = f" to {self.most}" if self.most > self.fewest else ""
        alone = f"one query alone moves their mean by up to {self.one_query:.3f}"
        if smallest_p(self.fewest) >= ALPHA:
            told = f"so few cannot tell any difference from chance, and {alone}"
        elif self.told_apart is None:
            told = alone
        else:
            told = f"a true difference of about {self.told_apart:.3f} could be told apart there, "
            told += f"and {alone}"
        if not self.few:
            many = counted(self.most, "query")
            many = f"{self.fewest} to {many}" if folds else many
            return f"the choice is made on {many}: {told}"
        if self.judged_told_apart is not None and self.one_query > self.judged_told_apart:
            told += (
                f", more than the {self.judged_told_apart:.3f} that the {self.judged} judged can "
                "tell apart"
            )
        return (
            f"the choice rests on few queries, {self.fewest}{folds}: {told}; what is chosen may be "
            "chance"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the figures as sweep.json keeps them."""
        return {
            "queries": [self.fewest, self.most],
            "judged": self.judged,
            "one_query": self.one_query,
            "told_apart": self.told_apart,
            "judged_told_apart": self.judged_told_apart,
            "few": self.few,
            "in_words": self.words,
        }


def choice_resolution(choosing: Sequence[int], judged: int, deviation: float) -> ChoiceResolution:
    """Return what the queries that choose can tell apart.

    `choosing` counts them, study by study; `deviation` is that of differences, over queries.
    """
    fewest = min(choosing)
    return ChoiceResolution(
        fewest=fewest,
        most=max(choosing),
        judged=judged,
        one_query=1 / fewest,
        told_apart=smallest_difference(deviation, fewest),
        judged_told_apart=smallest_difference(deviation, judged),
    )
