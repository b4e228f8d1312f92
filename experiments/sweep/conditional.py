"""Conditional parameters of a sweep: those that are read only under some values of others.

One definition for the terminal, sweep.json and the page; `reports.conditional` has its words. A
condition may be declared by the space file, found by the look before the first trial, or declared
and narrowed by the look.
"""

from typing import Literal

from experiments.space import Space

__all__ = ["Origin", "conditional"]

Origin = Literal["declared", "narrowed", "found"]


def conditional(asked: Space, swept: Space) -> dict[str, Origin]:
    """Return the swept parameters that have conditions, by path, with where these come from.

    `asked` is the space of the file, `swept` what was left of it after the look. `declared`: as the
    file says; `found`: the file had none; `narrowed`: the file had some and the look others.
    """
    origins: dict[str, Origin] = {}
    for parameter in swept.parameters:
        if parameter.when:
            declared = asked[parameter.path].when
            narrowed: Origin = "narrowed" if declared else "found"
            origins[parameter.path] = "declared" if declared == parameter.when else narrowed
    return origins
