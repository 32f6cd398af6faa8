"""The module `__getattr__` that imports a public name when it is first used."""

TYPE_CHECKING = False  # what type checkers take for typing's own, without its import
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def lazy_names(package: str, table: "Mapping[str, str]", namespace: "dict[str, Any]") -> "Callable[[str], Any]":
    """Return a module `__getattr__` that looks names up in a table (name -> module) and keeps them.

    The function raises AttributeError for a name that is not in the table.
    """

    def find(name: str) -> "Any":
        module = table.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(module), name)
        namespace[name] = value
        return value

    return find
