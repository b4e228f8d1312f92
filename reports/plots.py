"""Scales and paths of pictures: numbers to places in an SVG, in whole pixels."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Scale", "Tick", "dots", "steps"]


@dataclass(frozen=True)
class Tick:
    """A mark on a scale: its place in pixels and its text."""

    place: float
    text: str


@dataclass(frozen=True)
class Scale:
    """Maps values from `low` to `high` onto pixels from `start` to `end`; log where asked.

    What lies outside is placed at the nearer end. A scale of one value has it in the middle.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """Return the place of a value, to a tenth of a pixel."""
        low, high = self._ends()
        if high <= low:
            return round((self.start + self.end) / 2, 1)
        inside = min(max(value, self.low), self.high)
        share = ((math.log(inside) if self.log else inside) - low) / (high - low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self, most: int) -> list[Tick]:
        """Return at most `most` round values on the scale, its ends where it is logarithmic."""
        if self.high <= self.low:
            return [Tick(self.at(self.low), _text(self.low))]
        if self.log:
            middle = math.sqrt(self.low * self.high)
            values = (self.low, float(f"{middle:.1g}"), self.high)[: max(2, most)]
            return [Tick(self.at(value), _text(value)) for value in values]
        step = _round_step((self.high - self.low) / max(1, most - 1))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        return [Tick(self.at(i * step), f"{i * step:.{digits}f}") for i in range(first, last + 1)]

    def _ends(self) -> tuple[float, float]:
        if self.log:
            return math.log(self.low), math.log(self.high)
        return self.low, self.high


def _round_step(least: float) -> float:
    """Return the smallest of 1, 2, 5 times a power of ten that is not below `least`."""
    power: float = 10.0 ** math.floor(math.log10(least))
    for factor in (1, 2, 5):
        if factor * power >= least * (1 - 1e-9):
            return factor * power
    return 10 * power


def _text(value: float) -> str:
    return f"{value:.4g}"


def dots(points: Iterable[tuple[float, float]]) -> str:
    """Return a path whose round caps are dots, one for each place; equal places are drawn once."""
    places = dict.fromkeys((round(x, 1), round(y, 1)) for x, y in points)
    return "".join(f"M{x:g} {y:g}h0" for x, y in places)


def steps(points: Sequence[tuple[float, float]]) -> str:
    """Return a path through points that changes height only where a point stands."""
    if not points:
        return ""
    (x, y), *rest = points
    path = f"M{x:g} {y:g}"
    for x, y in rest:
        path += f"H{x:g}V{y:g}"
    return path
