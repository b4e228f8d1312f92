"""`gold.yaml`: what it may say, read safely, each fault with its line.

The file is composed into nodes by the safe loader, so that nothing is ever constructed but plain
values, every fault has a line, and an anchor that multiplies is counted before it is expanded.
"""

from __future__ import annotations

import difflib
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from gold.faults import Fault, InputError, Sink
from gold.files import encodes, read_bytes
from gold.model import Settings

if TYPE_CHECKING:
    import yaml

_FILE: Final = "gold.yaml"
_MAX_BYTES: Final = 1_000_000
_MAX_NODES: Final = 10_000  # after expansion of aliases; a real file has some thirty
_NAMES: Final = tuple(setting.name for setting in fields(Settings))
_PLAIN_TAGS: Final = frozenset({"str", "int", "float", "bool", "timestamp"})


def read_settings(directory: Path, sink: Sink) -> Settings:
    """Read a gold directory's `gold.yaml`; without the file every default stands.

    Each fault (broken YAML, an unknown, repeated or wrong setting) is told to `sink`, and that
    setting keeps its default. Texts are taken as they are written: `version: 1.10` is "1.10".
    """
    path = directory / _FILE
    if not path.exists():
        for name in ("gold.yml", "gold.json"):
            if (directory / name).exists():
                message = f"{name} is not read"
                sink(Fault("misnamed-file", directory / name, None, message, f"name it {_FILE}"))
        return Settings()
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for key, line, node in _pairs(path, sink):
        if key not in _NAMES:
            near = difflib.get_close_matches(key.replace("-", "_"), _NAMES, n=1, cutoff=0.0)
            fix = f"the nearest known name is {near[0]}"
            sink(Fault("unknown-setting", path, line, f"unknown setting {key!r}", fix))
        elif key in lines:
            message = f"{key} stands in line {lines[key]} already"
            sink(Fault("duplicate-setting", path, line, message, "keep one of them"))
        else:
            lines[key] = line
            try:
                values[key] = _value(key, node)
            except ValueError as error:
                sink(Fault("bad-setting", path, line, f"{key} is wrong", f"expected {error}"))
    return Settings(**{key: value for key, value in values.items() if value is not None})


def _pairs(path: Path, sink: Sink) -> list[tuple[str, int, yaml.Node]]:
    """Return (key, line, value node) of the top mapping, or nothing after a fault."""
    import yaml

    try:
        data = read_bytes(path)
    except InputError as error:
        sink(Fault("unreadable-file", path, None, error.message))
        return []
    if len(data) > _MAX_BYTES:
        message = f"{len(data)} bytes are too many for settings"
        sink(Fault("invalid-yaml", path, None, message, f"at most {_MAX_BYTES}"))
        return []
    try:
        root = yaml.compose(data.decode("utf-8-sig"), Loader=yaml.SafeLoader)
        if root is not None and _size(root, {}, set()) > _MAX_NODES:
            message = "its anchors expand to too many values"
            sink(Fault("invalid-yaml", path, None, message, "write the values out"))
            return []
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        sink(Fault("not-utf8", path, line, "the line is not UTF-8", "save the file as UTF-8"))
        return []
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line_or_none = None if mark is None else mark.line + 1
        sink(Fault("invalid-yaml", path, line_or_none, f"invalid YAML: {error.problem}"))
        return []
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        sink(Fault("invalid-yaml", path, None, f"invalid YAML: {reason}"))
        return []
    if root is None or _tag(root) == "null":
        return []
    if not isinstance(root, yaml.MappingNode):
        sink(Fault("invalid-yaml", path, 1, "expected settings as key: value"))
        return []
    return [(str(key.value), key.start_mark.line + 1, value) for key, value in root.value]


def _size(node: yaml.Node, known: dict[int, int], opened: set[int]) -> int:
    """Count a node's values with every alias expanded, each node visited once."""
    if id(node) in opened:
        raise ValueError("an anchor holds itself")
    if id(node) not in known:
        opened.add(id(node))
        children = [] if isinstance(node.value, str) else node.value
        parts = [part for child in children for part in _parts(child)]
        known[id(node)] = 1 + sum(_size(part, known, opened) for part in parts)
        opened.remove(id(node))
    return known[id(node)]


def _parts(child: yaml.Node | tuple[yaml.Node, yaml.Node]) -> tuple[yaml.Node, ...]:
    return child if isinstance(child, tuple) else (child,)


def _value(name: str, node: yaml.Node) -> Any:
    """Return a setting's value, None for null; raise ValueError saying what was expected."""
    if _tag(node) == "null":
        return None
    if name in ("name", "version", "licence"):
        return _text(node, "a text")
    if name == "level":
        return _choice(node, ("document", "chunk"))
    if name == "success":
        return _choice(node, ("any", "all"))
    value = _construct(node)
    if name == "coverage_threshold":
        return _share(value)
    if name == "relevant_from":
        return _count(value, "an integer of 1 or more")
    if name == "cutoffs":
        return _cutoffs(value)
    return _grades(node)


def _tag(node: yaml.Node) -> str:
    return str(node.tag).removeprefix("tag:yaml.org,2002:")


def _text(node: yaml.Node, expected: str) -> str:
    if not isinstance(node.value, str) or _tag(node) not in _PLAIN_TAGS:
        raise ValueError(expected)
    if not encodes(node.value):
        raise ValueError(f"{expected} without half a surrogate pair, got {node.value!a:.60}")
    return node.value


def _choice(node: yaml.Node, choices: tuple[str, ...]) -> str:
    expected = " or ".join(choices)
    value = _text(node, expected)
    if value not in choices:
        raise ValueError(f"{expected}, got {value!r}")
    return value


def _construct(node: yaml.Node) -> Any:
    import yaml

    try:
        return yaml.constructor.SafeConstructor().construct_document(node)
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise ValueError("a plain value") from error


def _share(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and 0 <= value <= 1):  # false for NaN
        raise ValueError(f"a number from 0 to 1, got {value!r}")
    return float(value)


def _count(value: Any, expected: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{expected}, got {value!r}")
    return value


def _cutoffs(value: Any) -> tuple[int, ...]:
    expected = "a list of integers of 1 or more, none twice"
    if not isinstance(value, list) or not value:
        raise ValueError(f"{expected}, got {value!r}")
    cutoffs = [_count(cutoff, expected) for cutoff in value]
    if len(set(cutoffs)) != len(cutoffs):
        raise ValueError(f"{expected}, got {value!r}")
    return tuple(sorted(cutoffs))


def _grades(node: yaml.Node) -> dict[int, str]:
    expected = "each grade once with its meaning, as 1: partly relevant"
    if _tag(node) != "map":
        raise ValueError(expected)
    grades: dict[int, str] = {}
    for key, meaning in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
        grade = _construct(key)
        if isinstance(grade, bool) or not isinstance(grade, int) or grade in grades:
            raise ValueError(f"{expected}, got {grade!r}")
        grades[grade] = _text(meaning, expected)
    return dict(sorted(grades.items()))
