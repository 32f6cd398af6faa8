"""Offered: what the sources contribute, merged into one set of tools and one system text.

Law: two tools whose names become one towards the model are refused here, naming both.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec

from sapwood.context.source import Contribution, SourceLike
from sapwood.core.errors import ToolNameCollision
from sapwood.core.messages import ToolCall
from sapwood.core.model import ToolLoading
from sapwood.core.names import wire_name
from sapwood.core.tools import CALL_TOOL, BoundTool, ToolSchema, effective


class OfferedTool(msgspec.Struct, frozen=True):
    """One tool: its schema, what runs it (None where the caller's executor does) and how it is reached.

    loading: of a hidden one, how it becomes callable (see `Contribution`).
    how_to_load: what a model is told that calls it before.
    """

    schema: ToolSchema
    bound: BoundTool | None = None
    hidden: bool = False
    meta: bool = False
    loading: ToolLoading = "relist"
    how_to_load: str = ""


class Offered(msgspec.Struct, frozen=True):
    """What a turn offers to the model.

    by_wire: wire name -> tool. sent: schemas of the first call, in their order; those that are deferred come last.
    system: (source, text) in the order of the sources.
    """

    by_wire: dict[str, OfferedTool] = {}
    sent: tuple[ToolSchema, ...] = ()
    system: tuple[tuple[str, str], ...] = ()
    name_map: dict[str, str] = {}

    @property
    def system_texts(self) -> tuple[str, ...]:
        """The system texts alone."""
        return tuple(text for _, text in self.system)

    def original(self, wire: str) -> str:
        """Return the tool's own name for what the model called; an unknown name comes back as it is."""
        if wire in self.name_map:
            return self.name_map[wire]
        tool = self.by_wire.get(wire)
        return tool.schema.name if tool else wire

    def meant(self, call: ToolCall) -> ToolCall:
        """Return the call that is meant: where `call_tool` is offered, a call of it is one of the tool it names.

        Where it is not, it still reaches the tools that are hidden: an earlier request may have offered it.
        """
        carrier = self.by_wire.get(CALL_TOOL)
        if call.name != CALL_TOOL or (carrier is not None and not carrier.meta):
            return call
        inner = effective(call)
        name = self.original(inner.name)
        found = self.find(name)
        if carrier is None and (found is None or not found.hidden):
            return call
        return inner.replace(name=name)

    def find(self, name: str) -> OfferedTool | None:
        """Return a tool by its own name or by its wire name."""
        tool = self.by_wire.get(wire_name(name))
        return tool if tool is not None and name in (tool.schema.name, wire_name(tool.schema.name)) else None

    def with_loaded(self, names: Sequence[str], bare: Collection[str] = ()) -> tuple[ToolSchema, ...]:
        """Return the schemas to send once these hidden tools are loaded: the first ones, then those.

        bare: loaded tools of which no message holds a definition or a reference any more, only a summary their names.
        """
        if not names:
            return self.sent
        sent, known, added = self.sent, {schema.name for schema in self.sent}, list[ToolSchema]()
        if any(schema.defer and schema.name in bare for schema in sent):
            sent = tuple(self.by_wire[wire_name(item.name)].schema if item.name in bare else item for item in sent)
        for name in names:
            tool = self.find(name)
            if tool is None or tool.schema.name in known:
                continue
            if tool.loading == "relist" or (tool.loading == "inline" and name in bare):
                added.append(tool.schema)
        return (*sent, *added) if added else sent

    def found(self, names: Sequence[str], bare: Collection[str] = ()) -> tuple[ToolSchema, ...]:
        """Return the schemas of the loaded tools whose definitions came with a result (`inline`)."""
        tools = (self.find(name) for name in names if name not in bare)
        return tuple(tool.schema for tool in tools if tool is not None and tool.hidden and tool.loading == "inline")


def offer(parts: Sequence[tuple[SourceLike, Contribution]]) -> Offered:
    """Return the contributions as one; raises ToolNameCollision where two tools become one.

    A source with `yields_tools` (the tools passed to `run_agent`) gives way where another source offers
    tools: that one owns the list, and the caller's tools are not sent. Source: guide D.
    """
    if not any((part.tools or part.hidden) and not part.beside_tools for _, part in parts):
        parts = [(source, _alone(part)) for source, part in parts]
    owned = any(
        part.tools and not part.beside_tools for source, part in parts if not getattr(source, "yields_tools", False)
    )
    by_wire: dict[str, OfferedTool] = {}
    owners: dict[str, str] = {}
    sent: list[ToolSchema] = []
    deferred: list[ToolSchema] = []
    names: dict[str, str] = {}
    for source, part in parts:
        names.update(part.name_map)
        yields = owned and getattr(source, "yields_tools", False)
        for tool, hidden in [
            *((item, False) for item in part.tools),
            *((item, True) for item in part.hidden),
        ]:
            offered = _offered(tool, hidden or yields, part)
            wire = wire_name(offered.schema.name)
            if wire in by_wire and offered.meta and wire == CALL_TOOL and by_wire[wire].schema == offered.schema:
                continue  # sources whose tools are dispatched share the one way to them
            if wire in by_wire and yields:
                continue  # guide D: the source that owns the list offers the caller's tools itself
            if wire in by_wire:
                other = by_wire[wire].schema.name
                raise ToolNameCollision(
                    f"{other!r} (source {owners[wire]!r}) and {offered.schema.name!r} (source {source.name!r}) "
                    f"both become {wire!r} for the model; rename one of them"
                )
            by_wire[wire], owners[wire] = offered, source.name
            if not offered.hidden:
                sent.append(offered.schema)
            elif offered.loading == "deferred":
                deferred.append(offered.schema.replace(defer=True))
    system = tuple((source.name, part.system) for source, part in parts if part.system.strip())
    return Offered(by_wire, (*sent, *deferred), system, names)


def _alone(part: Contribution) -> Contribution:
    return msgspec.structs.replace(part, tools=(), hidden=(), meta_tools=()) if part.beside_tools else part


def _offered(tool: ToolSchema | BoundTool, hidden: bool, part: Contribution) -> OfferedTool:
    schema, bound = (tool.schema, tool) if isinstance(tool, BoundTool) else (tool, None)
    is_meta, way = schema.name in part.meta_tools, part.how_to_load.get(schema.name, "")
    return OfferedTool(schema, bound, hidden, is_meta, part.loading if hidden else "relist", way)


Executor = Callable[[str, dict[str, Any]], Any]
"""Guide D's `execute(name, args)`: runs any tool of the caller's by its own name."""
