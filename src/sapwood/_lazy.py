"""The module `__getattr__` that imports a public name when it is first used."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, table: Mapping[str, str], namespace: dict[str, Any]) -> Callable[[str], Any]:
    """Return a module `__getattr__` that looks names up in a table (name -> module) and keeps them.

    The function raises AttributeError for a name that is not in the table.
    """

    def find(name: str) -> Any:
        module = table.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(module), name)
        namespace[name] = value
        return value

    return find
