"""One parameter of a space: its range or choices, and when it is read."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

__all__ = ["Condition", "Kind", "Parameter", "label"]

Condition = Mapping[str, tuple[Any, ...]]
Kind = Literal["float", "int", "choice"]


@dataclass(frozen=True)
class Parameter:
    """One parameter that moves.

    A range from `low` to `high`, both included, or `choices`. `when` holds alternatives, each a
    map of path to the values under which the parameter is read; none: always. `complement` is a
    path that gets 1 minus the value. `line` is its line in the file.
    """

    path: str
    kind: Kind
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    step: float | None = None
    choices: tuple[Any, ...] = ()
    when: tuple[Condition, ...] = ()
    complement: str | None = None
    line: int | None = None

    @property
    def labels(self) -> tuple[str | int | float | bool | None, ...]:
        """The choices as a study stores them: what is no scalar as its JSON."""
        return tuple(map(label, self.choices))

    def distribution(self) -> "BaseDistribution":
        """Return the parameter as Optuna's distribution."""
        from optuna.distributions import (
            CategoricalDistribution,
            FloatDistribution,
            IntDistribution,
        )

        if self.kind == "choice":
            return CategoricalDistribution(self.labels)
        if self.kind == "int":
            step = int(self.step or 1)
            return IntDistribution(int(self.low), int(self.high), log=self.log, step=step)
        return FloatDistribution(self.low, self.high, log=self.log, step=self.step)

    def value_of(self, stored: Any) -> Any:
        """Return the configuration's value for what a study stores."""
        if self.kind != "choice":
            return stored
        return self.choices[self.labels.index(stored)]

    def nearest(self, value: Any) -> Any:
        """Return what a study stores for a value, the nearest possible one."""
        if self.kind == "choice":
            known = label(value)
            return known if known in self.labels else self.labels[0]
        bounded = min(max(value, self.low), self.high)
        if self.step:
            bounded = self.low + self.step * round((bounded - self.low) / self.step)
        return int(bounded) if self.kind == "int" else float(bounded)

    def takes(self, value: Any) -> bool:
        """Tell whether a trial can give the parameter this value."""
        if self.kind == "choice":
            return any(type(one) is type(value) and one == value for one in self.choices)
        return isinstance(value, int | float) and self.low <= value <= self.high

    def samples(self) -> tuple[Any, ...]:
        """Return values that a configuration must accept: every choice, or a range's ends.

        Of a float range also one between, which shows whether fractions are taken.
        """
        if self.kind == "choice":
            return self.choices
        if self.kind == "int":
            return int(self.low), int(self.high)
        span = self.high - self.low
        return self.low, self.low + (self.step or span * 0.382), self.high

    def probes(self, around: Any) -> tuple[Any, ...]:
        """Return values far apart and unlike `around`: those that show whether anything moves."""
        if self.kind == "choice":
            return tuple(one for one in self.labels if one != label(around))
        span = (self.low, (self.low + self.high) / 2, self.high)
        if self.log:
            span = (self.low, (self.low * self.high) ** 0.5, self.high)
        return tuple(v for v in dict.fromkeys(map(self.nearest, span)) if v != around)

    def to_json(self) -> dict[str, Any]:
        """Return the parameter as a file says it."""
        said: dict[str, Any] = {}
        if self.kind == "choice":
            said["choices"] = list(self.choices)
        else:
            whole = self.kind == "int"
            said["low"] = int(self.low) if whole else self.low
            said["high"] = int(self.high) if whole else self.high
            said |= {"log": True} if self.log else {}
            said |= {"step": int(self.step) if whole else self.step} if self.step else {}
        if self.complement:
            said["complement"] = self.complement
        if self.when:
            said["when"] = [{path: list(v) for path, v in one.items()} for one in self.when]
        return said


def label(value: Any) -> Any:
    """Return a choice as a study stores it: what is no scalar as its JSON."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return json.dumps(value, separators=(",", ":"))
