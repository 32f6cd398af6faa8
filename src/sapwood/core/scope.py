"""RetrievalScope: which part of the documents may be searched.

Laws: what is excluded stays excluded, whatever includes it; a scope below another one can only narrow it.
"""

from collections.abc import Iterable
from typing import ClassVar, Literal, cast

import msgspec

from sapwood.core.errors import ConfigError
from sapwood.core.require import shown
from sapwood.core.struct import Data


class RetrievalScope(Data, frozen=True, tag="retrieval_scope"):
    """Namespaces that may be searched, as paths: `/law` covers `/law` and all below it, and not `/lawyers`.

    include: only these; empty for all. exclude: none of these, although they are included.

    >>> scope = RetrievalScope(include=("/law",), exclude=("/law/drafts",))
    >>> scope.matches("/law/tax"), scope.matches("/law/drafts/7"), scope.matches("/lawyers")
    (True, False, False)
    """

    type: ClassVar[Literal["retrieval_scope"]] = "retrieval_scope"
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("include", "exclude"):
            paths = _paths(name, getattr(self, name))
            msgspec.structs.force_setattr(self, name, paths)  # it was only just made, so nobody has seen it

    def matches(self, namespace: str) -> bool:
        """Tell whether what lies in this namespace may be found."""
        path = as_path(namespace)
        if any(_is_below(path, prefix) for prefix in self.exclude):
            return False
        return not self.include or any(_is_below(path, prefix) for prefix in self.include)

    def intersect(self, child: "RetrievalScope") -> "RetrievalScope":
        """Return what both allow: never more than this scope does.

        >>> RetrievalScope(include=("/law",)).intersect(RetrievalScope(include=("/law/tax", "/art"))).include
        ('/law/tax',)
        """
        excluded = tuple(dict.fromkeys((*self.exclude, *child.exclude)))
        if not self.include or not child.include:
            return RetrievalScope(self.include or child.include, excluded)
        both = [path for path in child.include if any(_is_below(path, prefix) for prefix in self.include)]
        both += [path for path in self.include if any(_is_below(path, prefix) for prefix in child.include)]
        if not both:
            return RetrievalScope((), ("/",))  # nothing at all: an empty `include` alone would mean everything
        return RetrievalScope(tuple(dict.fromkeys(both)), excluded)


def as_path(namespace: str) -> str:
    """Return a namespace as a path from the root, without a slash at its end.

    >>> as_path("law/tax/")
    '/law/tax'
    """
    return "/" + "/".join(piece for piece in namespace.split("/") if piece)


def _is_below(path: str, prefix: str) -> bool:
    return prefix == "/" or path == prefix or path.startswith(prefix + "/")


def _paths(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ConfigError(f"{name} is a list of namespaces, such as [{shown(value)}], not one text or number")
    paths: list[str] = []
    for item in cast("Iterable[object]", value):  # each is looked at
        if not isinstance(item, str):
            raise ConfigError(f"{name} holds {shown(item)}, which is no namespace")
        paths.append(as_path(item))
    return tuple(paths)
