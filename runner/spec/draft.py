"""What is well-formed of a spec that may have faults, so that the meaning of its sound parts can be checked all the same."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from runner.spec.models import Model
from runner.yaml_source import Path, Source


def contains(data: Any, part: str | int) -> bool:
    """Whether plain data is a mapping with this key, or a list with this index."""
    return part in data if isinstance(data, dict) else isinstance(data, list) and isinstance(part, int) and part < len(data)


class Draft:
    """A view of a YAML source that gives validated parts only."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._known: dict[tuple[Path, Any], Any] = {}

    def raw(self, path: Path) -> Any:
        """The plain data at a path; None where there is none."""
        data = self.source.data
        for part in path:
            if not contains(data, part):
                return None
            data = data[part]
        return data

    def one(self, path: Path, kind: Any) -> Any:
        """The part at a path as a model or an annotated type; None where it is not there or not well-formed."""
        if (path, kind) not in self._known:
            data = self.raw(path)
            try:
                self._known[path, kind] = None if data is None else _adapter(kind).validate_python(data)
            except ValidationError:
                self._known[path, kind] = None
        return self._known[path, kind]

    def names(self, path: Path) -> list[str]:
        """The keys of a mapping, those of faulty entries too."""
        data = self.raw(path)
        return list(data) if isinstance(data, dict) else []

    def mappings(self, *sections: str) -> bool:
        """Whether these sections, as far as they are there, are mappings. Where one isn't, what it lacks says nothing."""
        return all(isinstance(self.raw((section,)), dict | None) for section in sections)

    def entries(self, path: Path, kind: Any) -> dict[str, Any]:
        """The well-formed entries of a mapping."""
        found = {name: self.one((*path, name), kind) for name in self.names(path)}
        return {name: value for name, value in found.items() if value is not None}

    def items(self, path: Path, kind: Any) -> list[tuple[Path, Any]]:
        """The well-formed items of a list, each with its path."""
        data = self.raw(path)
        paths: list[Path] = [(*path, index) for index in range(len(data))] if isinstance(data, list) else []
        found = [(place, self.one(place, kind)) for place in paths]
        return [(place, value) for place, value in found if value is not None]

    def whole(self, path: Path, kind: Any) -> dict[str, Any] | None:
        """The entries of a mapping, when every one of them is well-formed."""
        entries = self.entries(path, kind)
        return entries if len(entries) == len(self.names(path)) else None


@lru_cache(maxsize=64)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    if isinstance(kind, type) and issubclass(kind, Model):
        return TypeAdapter(kind)
    return TypeAdapter(kind, config=ConfigDict(strict=True, allow_inf_nan=False))
