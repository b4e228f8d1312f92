"""Inert parameters: found before a sweep by moving each one alone.

A parameter is moved under the values of every switch of the space, one switch at a time, and
where nothing has changed under all of their combinations as well. One that changes no ranking at
all is dropped, with the reason; one that changes some only under certain values of a switch is
made conditional on these. All of it goes through the memo, at the cost of a trial a look.
"""

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.space import Space
from experiments.sweep.objective import Objective
from experiments.sweep.parameter import Condition, Parameter
from retriever import InputError, RetrieverConfig
from retriever.types import Floats, Integers

__all__ = ["Inert", "Screening", "screen"]

# Switches on which much depends, beside those that the space's conditions name.
SWITCHES = (
    "merge.method",
    "route.bm25_search",
    "rerank_plan.mode",
    "rerank_merged.rerank_policy",
)
MOST_COMBINATIONS = 96


@dataclass(frozen=True)
class Inert:
    """A parameter that changes no ranking on this gold set, and why."""

    path: str
    reason: str


@dataclass(frozen=True, eq=False)
class Screening:
    """What moving each parameter alone has shown.

    `space` holds those that move something, `conditional` names those that got conditions.
    `deviation` is the median standard deviation, over queries, of the objective's differences from
    the default by those that moved it: how far apart configurations of this space are. `looks`
    counts the configurations tried.
    """

    space: Space
    inert: tuple[Inert, ...]
    conditional: tuple[str, ...]
    deviation: float | None
    looks: int


def screen(space: Space, base: RetrieverConfig, objective: Objective) -> Screening:
    """Move every parameter of a space alone and sort out those that change nothing."""
    return _Screen(space, base, objective).result()


class _Screen:
    def __init__(self, space: Space, base: RetrieverConfig, objective: Objective) -> None:
        self.space = space
        self.base = base
        self.objective = objective
        self.known: dict[str, str | None] = {}
        self.values = space.active_values(base)
        self.deviations: list[float] = []
        named = {path for p in space.parameters for one in p.when for path in one}
        self.switches = [
            p
            for p in space.parameters
            if p.kind == "choice" and (p.path in named or p.path in SWITCHES)
        ]
        workflows = set(objective.workflows(base))
        rows = {w for p in space.parameters if (w := space.workflow_of(p)) is not None}
        # A workflow without a row of its own takes the row `default`.
        self.workflows = {w if w in rows else "default" for w in workflows}

    def result(self) -> Screening:
        space, inert, conditional = self.space, [], []
        for parameter in self.space.parameters:
            reason = self._reason_without_looking(parameter)
            when = () if reason else self._conditions(parameter)
            if when is None:
                reason = "no ranking changes under any value of the switches it could depend on"
            if reason:
                inert.append(Inert(parameter.path, reason))
            elif when != parameter.when:
                conditional.append(parameter.path)
                space = space.under(parameter.path, when or ())
        space = space.without([one.path for one in inert])
        deviation = float(np.median(self.deviations)) if self.deviations else None
        return Screening(space, tuple(inert), tuple(conditional), deviation, len(self.known))

    def _reason_without_looking(self, parameter: Parameter) -> str:
        workflow = self.space.workflow_of(parameter)
        if workflow is not None and workflow not in self.workflows:
            return f"no query of this gold set takes the weights of {workflow}"
        if workflow is not None and parameter.path.endswith(".w_ce"):
            return "" if self.objective.retriever.reranks else "no cross-encoder is configured"
        return ""

    def _conditions(self, parameter: Parameter) -> tuple[Condition, ...] | None:
        """Return the conditions under which a parameter moves something; None for never."""
        found: list[Condition] = []
        for context, stated in self._stated(parameter):
            alive = self._moves(parameter, context, measured=True)
            # A condition names what it needs; other switches are looked at one by one.
            others = [s for s in self.switches if s.path != parameter.path and s.path not in stated]
            # A switch keeps its conditions: else two could be made to depend on each other.
            if alive and parameter in self.switches:
                return parameter.when
            narrowed = dict(stated)
            lone: list[Condition] = []
            for switch in others:
                kept = self._alive_values(parameter, context, switch, alive)
                if kept and len(kept) < len(switch.choices):
                    narrowed[switch.path] = kept
                    lone.append({**stated, switch.path: kept})
            if alive:
                found.append(narrowed)
            else:
                found += lone
        if found and parameter in self.switches:
            return parameter.when
        if found:
            # An alternative that asks for nothing holds always.
            return tuple(found) if all(found) else ()
        return parameter.when if self._moves_somewhere(parameter) else None

    def _stated(self, parameter: Parameter) -> Iterator[tuple[dict[str, Any], Condition]]:
        """Yield the contexts in which the file says that a parameter is read."""
        for one in parameter.when or ({},):
            context = {path: allowed[0] for path, allowed in one.items()}
            for path in list(context):
                inner = next((p for p in self.space.parameters if p.path == path), None)
                for needed in (inner.when if inner else ())[:1]:
                    context = {k: v[0] for k, v in needed.items()} | context
            yield context, one

    def _alive_values(
        self, parameter: Parameter, context: Mapping[str, Any], switch: Parameter, at_base: bool
    ) -> tuple[Any, ...]:
        now = context.get(switch.path, self.values[switch.path])
        return tuple(
            value
            for value in switch.choices
            if (
                at_base if value == now else self._moves(parameter, {**context, switch.path: value})
            )
        )

    def _moves_somewhere(self, parameter: Parameter) -> bool:
        """Look under the combinations of all switches."""
        others = [s for s in self.switches if s.path != parameter.path]
        combinations = itertools.product(*([(s.path, v) for v in s.choices] for s in others))
        contexts = ({**self.values, **dict(one)} for one in combinations)
        read = (context for context in contexts if self.space.is_active(parameter, context))
        paths = [s.path for s in others]
        return any(
            self._moves(parameter, {path: context[path] for path in paths})
            for context in itertools.islice(read, MOST_COMBINATIONS)
        )

    def _moves(
        self, parameter: Parameter, context: Mapping[str, Any], measured: bool = False
    ) -> bool:
        """Tell whether moving a parameter alone changes a ranking in a context."""
        still = self._orders(context)
        if still is None:
            return False
        at = parameter.nearest(context.get(parameter.path, self.values[parameter.path]))
        for probe in parameter.probes(at):
            moved = {**context, parameter.path: parameter.value_of(probe)}
            if parameter.complement:
                moved[parameter.complement] = 1.0 - parameter.value_of(probe)
            orders = self._orders(moved)
            if orders is None or orders == still:
                continue
            if measured:
                self.deviations.append(float(self._difference(context, moved).std(ddof=1)))
            return True
        return False

    def _orders(self, overrides: Mapping[str, Any]) -> str | None:
        """Return the digest of all rankings under some overrides; None where they are refused."""
        key = repr(sorted(overrides.items(), key=lambda pair: pair[0]))
        if key not in self.known:
            try:
                config = self.base.with_overrides(overrides)
            except InputError:
                self.known[key] = None
            else:
                self.known[key] = _digest(self.objective.orders(config))
        return self.known[key]

    def _difference(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> Floats:
        measure = str(self.objective.measures[0])
        scores = [self.objective.score(self.base.with_overrides(o))[measure] for o in (one, other)]
        if len(scores[0]) < 2:
            return np.zeros(2)
        difference: Floats = scores[1] - scores[0]
        return difference


def _digest(orders: Sequence[Integers]) -> str:
    digest = hashlib.sha256()
    for order in orders:
        digest.update(order.tobytes())
    return digest.hexdigest()
