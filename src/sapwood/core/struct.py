"""The frozen base of every value that the core makes.

Laws: values never change after they are made; unknown keywords are refused; each class states its
tag, so that a union of them can be told apart in JSON and by `match`.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import msgspec

T = TypeVar("T", bound="Data")
Json: TypeAlias = dict[str, "Json"] | list["Json"] | str | float | bool | None
"""Any JSON value."""


class Data(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type"):
    """A frozen value that survives JSON and may sit inside a pydantic model.

    Subclasses repeat `frozen=True`, give `tag=` in the class line and state it once more as a
    `Literal` class variable called `type`, so that type checkers narrow on it.
    """

    def replace(self: T, **changes: Any) -> T:
        """Return a copy with some fields changed.

        Raises TypeError for a field that does not exist.
        """
        return msgspec.structs.replace(self, **changes)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Let pydantic (and with it FastAPI) validate, dump and describe this value."""
        from pydantic_core import core_schema

        def validate(value: Any) -> Any:
            if isinstance(value, cls):
                return value
            try:
                return msgspec.convert(value, cls)
            except msgspec.ValidationError as error:
                raise ValueError(str(error)) from error

        return core_schema.no_info_plain_validator_function(
            validate,
            serialization=core_schema.plain_serializer_function_ser_schema(msgspec.to_builtins),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> Any:
        """Give pydantic the JSON Schema that msgspec derives, references written out."""
        (reference,), components = msgspec.json.schema_components([cls], ref_template="{name}")
        return _inlined(reference, components, frozenset())


def _inlined(schema: Json, components: Mapping[str, Json], above: frozenset[str]) -> Json:
    if isinstance(schema, list):
        return [_inlined(item, components, above) for item in schema]
    if not isinstance(schema, dict):
        return schema
    name = schema.get("$ref")
    if isinstance(name, str):
        # A value that holds itself is described once; pydantic cannot take our references.
        return {"type": "object"} if name in above else _inlined(components[name], components, above | {name})
    return {key: _inlined(value, components, above) for key, value in schema.items() if key != "discriminator"}
