"""YAML as it is read here: no tags, no aliases, no key twice, and every fault with its line."""

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from retriever.files import InputError

__all__ = ["Places", "Way", "load_yaml", "places_of", "read_yaml"]

# The way to a key or an item of a text, ("rules", 0, "metric"), and the lines, from 1, by it.
Way = tuple[str | int, ...]
Places = Mapping[Way, int]


class _RefusedError(yaml.MarkedYAMLError):
    """YAML, and yet not read here."""


class _UniqueKeyLoader(yaml.SafeLoader):
    """Safe YAML in which the same key twice is an error and aliases are refused."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            alias = self.peek_event()  # type: ignore[no-untyped-call]
            raise _RefusedError(
                problem="aliases (*name) are not read here", problem_mark=alias.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise _RefusedError(
                    problem=f"key {key!r} is not text", problem_mark=key_node.start_mark
                )
            if key in seen:
                raise _RefusedError(
                    problem=f"key {key!r} stands twice", problem_mark=key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def load_yaml(text: str, source: object) -> Any:
    """Read any value; raises InputError with `source` and the line of the first fault."""
    try:
        return yaml.load(text, Loader=_UniqueKeyLoader)  # noqa: S506 - a SafeLoader, stricter
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        refused = isinstance(error, _RefusedError)
        message = str(error.problem) if refused else f"not YAML: {error.problem}"
        raise InputError(message, path=source, line=line) from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InputError(f"not YAML: {str(error).splitlines()[0]}", path=source) from error


def read_yaml(text: str, source: object) -> dict[str, Any]:
    """Read a mapping; an empty text is an empty one. Raises InputError as `load_yaml` does."""
    values = load_yaml(text, source)
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise InputError("expected keys and values", path=source, fix="merge: {rrf_k: 20}")
    return values


def places_of(text: str) -> Places:
    """Return the line of everything in a text that `load_yaml` has read."""
    root = yaml.compose(text, Loader=_UniqueKeyLoader)
    return {} if root is None else dict(_walk(root, ()))


def _walk(
    node: yaml.Node, way: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], int]]:
    if way == ():
        yield way, node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield (*way, key.value), key.start_mark.line + 1
            yield from _walk(value, (*way, key.value))
    elif isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            yield (*way, number), item.start_mark.line + 1
            yield from _walk(item, (*way, number))
