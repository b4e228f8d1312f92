"""The plugins that are installed, and the calls of their hooks by namespace."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any, TypeVar, cast

import pluggy

from retriever.hooks import Plugin, Specification

__all__ = ["GENERAL", "Subscribers", "installed", "namespaces", "register", "unregister"]

T = TypeVar("T")

# The namespace in which no plugin speaks and Core's own defaults stand.
GENERAL = "general"
GROUP = "assay.plugins"


@cache
def _manager() -> pluggy.PluginManager:
    """Return the manager of this process, the entry points' plugins registered, by name."""
    manager = pluggy.PluginManager("assay")
    manager.add_hookspecs(Specification)
    for point in sorted(metadata.entry_points(group=GROUP), key=lambda point: point.name):
        manager.register(point.load()(), name=point.name)
    return manager


def register(plugin: Plugin) -> None:
    """Make a plugin known to this process. Raises ValueError for a name that is taken."""
    _manager().register(plugin, name=plugin.name)
    _caller.cache_clear()


def unregister(name: str) -> None:
    """Forget a plugin that was registered."""
    _manager().unregister(name=name)
    _caller.cache_clear()


@cache
def _caller(hook: str, name: str) -> tuple[Callable[..., Any], Sequence[str]]:
    """Return what calls a hook of one plugin alone, and the arguments that the hook may take.

    Made once: pluggy reads the signatures of all plugins each time.
    """
    manager = _manager()
    others = [plugin for other, plugin in manager.list_name_plugin() if other != name]
    caller = manager.subset_hook_caller(hook, remove_plugins=[p for p in others if p is not None])
    return caller, getattr(manager.hook, hook).spec.argnames


def installed() -> dict[str, Plugin]:
    """Return every plugin by name, in order of name."""
    found = {name: cast("Plugin", p) for name, p in _manager().list_name_plugin() if p is not None}
    return dict(sorted(found.items()))


def namespaces() -> tuple[str, ...]:
    """Return every namespace a configuration may name."""
    return (GENERAL, *sorted({plugin.namespace for plugin in installed().values()}))


@dataclass(frozen=True)
class Subscribers:
    """The plugins of one namespace, in order of name.

    `settings` maps a plugin's name to its whole section of the configuration.
    """

    plugins: tuple[Plugin, ...]
    settings: dict[str, Any]

    @classmethod
    def of(cls, namespace: str, settings: dict[str, Any]) -> "Subscribers":
        """Return the subscribers of a namespace; none for `general`."""
        found = [p for p in installed().values() if p.namespace == namespace]
        return cls(tuple(found), {p.name: settings[p.name] for p in found})

    @property
    def identity(self) -> str:
        """What these plugins are and know: part of every key whose stage calls a hook."""
        return " ".join(
            f"{p.name} {p.version} {p.knowledge(self.settings[p.name])}" for p in self.plugins
        )

    def part(self, stage: str) -> str:
        """Fingerprint of the plugins' own sections for a stage."""
        parts = (getattr(self.settings[p.name], stage, None) for p in self.plugins)
        return " ".join(part.fingerprint for part in parts if part is not None)

    def first(self, hook: str, count: int, stage: str = "", **arguments: Any) -> list[Any]:
        """Call a *first* hook: an answer a query, None where all abstain."""
        answers: list[Any] = [None] * count
        for plugin, answer in self._call(hook, stage, arguments):
            if answer is None:
                continue
            _check_count(plugin, hook, answer, count)
            answers = [b if a is None else a for a, b in zip(answers, answer, strict=True)]
        return answers

    def every(
        self, hook: str, stage: str = "", count: int | None = None, **arguments: Any
    ) -> list[tuple[str, Any]]:
        """Call an *all* hook: (plugin name, its answer) of every subscriber that answers.

        With `count`, an answer has as many items.
        """
        found = []
        for plugin, answer in self._call(hook, stage, arguments):
            if answer is None:
                continue
            if count is not None:
                _check_count(plugin, hook, answer, count)
            found.append((plugin.name, answer))
        return found

    def one(self, hook: str, stage: str = "", **arguments: Any) -> Any:
        """Call a *first* hook that answers for the batch as a whole; None where all abstain."""
        for _, answer in self._call(hook, stage, arguments):
            if answer is not None:
                return answer
        return None

    def _call(
        self, hook: str, stage: str, arguments: dict[str, Any]
    ) -> Sequence[tuple[Plugin, Any]]:
        found = []
        for plugin in self.plugins:
            caller, wanted = _caller(hook, plugin.name)
            settings = self.settings[plugin.name]
            given = dict(arguments)
            given["part"] = getattr(settings, stage, None) if stage else None
            given["settings"] = settings
            answers = caller(**{name: given[name] for name in wanted if name in given})
            found.append((plugin, answers[0] if answers else None))
        return found


def _check_count(plugin: Plugin, hook: str, answer: Any, count: int) -> None:
    """Refuse an answer that cannot be told apart by item: a fault of the plugin's code."""
    if len(answer) != count:
        raise ValueError(
            f"plugin {plugin.name}: {hook} gave {len(answer)} answers, expected {count}"
        )
