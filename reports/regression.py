"""A comparison as a page. It is read from comparison.json; nothing is computed but how it looks."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from reports.cells import (
    causes_of,
    differences,
    moved,
    p_text,
    path,
    provenance,
    ranx_note,
    short,
    signed,
)
from reports.faults import InputError
from reports.page import render_page

__all__ = ["Comparison", "read_comparison", "to_html"]

FORMAT = 1

Comparison = Mapping[str, Any]


def read_comparison(place: Path) -> Comparison:
    """Read comparison.json. Raises InputError when it is none, or of another format."""
    file = place / "comparison.json" if place.is_dir() else place
    try:
        found = json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=file) from error
    except ValueError as error:
        raise InputError(f"no JSON: {error}", path=file, fix="compare anew") from error
    if not isinstance(found, dict) or found.get("kind") != "comparison":
        raise InputError("no comparison", path=file, fix="give what assay compare wrote")
    if found.get("format") != FORMAT:
        raise InputError(
            f"comparison format {found.get('format')!r}; this version reads {FORMAT}",
            path=file,
            fix="compare anew",
        )
    return found


def to_html(comparison: Comparison) -> str:
    """Return a self-contained page."""
    views = [_view(found) for found in comparison["comparisons"]]
    names = ", ".join(str(found["candidate"]["label"]) for found in comparison["comparisons"])
    return render_page(
        "regression.html",
        title=f"{comparison['baseline']['label']} against {names}",
        data={},
        styles=("regression.css",),
        context={
            "comparison": comparison,
            "provenance": provenance(comparison),
            "ranx_note": ranx_note,
            "views": views,
            "short": short,
            "signed": signed,
            "p_text": p_text,
            "parted": _parted,
        },
    )


def _parted(name: str) -> Markup:
    """Return a dotted name that a line may break after each dot."""
    return escape(name).replace(".", Markup(".<wbr>"))


def _view(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a comparison with what its pictures need: every interval on one scale."""
    figures = found["metrics"].values()
    bounds = [abs(f[k]) for f in figures for k in ("low", "high", "difference") if f[k] is not None]
    reach = max([*bounds, 1e-6])
    return {
        "found": found,
        "reach": reach,
        "bars": {name: _bar(figure, reach) for name, figure in found["metrics"].items()},
        "flow": _flow(found["flow"]),
        "differences": differences(found["differences"]),
        "movers": [
            {**mover, "shown_stage": moved(mover), "path": path(mover)} for mover in found["movers"]
        ],
        "causes_of": causes_of(found["causes"]),
    }


def _bar(figure: Mapping[str, Any], reach: float) -> dict[str, float] | None:
    """Return places in a picture 200 wide whose middle is no difference."""
    if figure["difference"] is None:
        return None
    at = {
        k: 100 + 96 * figure[k] / reach
        for k in ("difference", "low", "high")
        if figure[k] is not None
    }
    low, high = at.get("low", at["difference"]), at.get("high", at["difference"])
    return {"point": at["difference"], "low": low, "width": max(high - low, 1.0)}


def _flow(flow: Sequence[Mapping[str, Any]] | None) -> dict[str, Any] | None:
    """Return the flow as a square table: names, and for each row its cells."""
    if flow is None:
        return None
    names = sorted({str(cell[end]) for cell in flow for end in ("from", "to")}, key=_class_order)
    counts = {(cell["from"], cell["to"]): cell for cell in flow}
    return {
        "names": names,
        "rows": [{"name": a, "cells": [counts.get((a, b)) for b in names]} for a in names],
        "moved": [cell for cell in flow if cell["from"] != cell["to"]],
    }


def _class_order(name: str) -> tuple[bool, str]:
    return name != "ok", name
