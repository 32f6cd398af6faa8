"""Outputs by a type: pydantic describes it, validates it and shows it.

Laws: a value is validated from its JSON, so that what only JSON mode takes (a date as text in a strict model) is taken;
each validator runs once; whatever one raises is a problem, and a second door of `Exception` keeps `dump` from raising.
Imports pydantic, so it is imported when the first type is described.
"""

import dataclasses
import inspect
import json
import logging
import re
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import to_json

from sapwood.core.errors import ConfigError, ToolError
from sapwood.core.input_problems import Problem, cut, path_text, pydantic_problems
from sapwood.core.json_object import is_list, is_object
from sapwood.core.safe_text import safe_error_text
from sapwood.core.tools import JsonObject
from sapwood.core.type_schema import modern, type_schema

_log = logging.getLogger(__name__)
_EXAMPLES = "give a type, such as a model, a dataclass, list[int], `Lamp | Kettle`, or a JSON Schema as a dictionary"
_SAYING = frozenset({"title", "description", "$defs", "default"})


class TypeForm:
    """Values of a type. Raises ConfigError, naming it, for what is none and for what has no form.

    >>> TypeForm(int).schema
    {'type': 'integer'}
    """

    def __init__(self, given: Any) -> None:
        _require_type(given)
        name = name_of(given)
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(modern(given))
            self.schema: JsonObject = type_schema(self._adapter)
        except (PydanticUserError, NameError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise ConfigError(f"the output {name} cannot be described to a model: {_first_line(error)}") from error
        if not self.schema.keys() - _SAYING:
            raise ConfigError(f"the output {name} says nothing of its form; {_EXAMPLES}")
        properties = self.schema.get("properties")
        self._known = [*properties] if is_object(properties) else []
        required: Any = self.schema.get("required")
        self._optional = set(self._known) - set(required if is_list(required) else ())

    def check(self, value: Any, at: tuple[str, ...], *, expose_errors: bool) -> tuple[Any, Sequence[Problem]]:
        """Return the validated value, and no problems; or the problems, each below the path `at`.

        A null that is refused, for a field with a default, counts as left out.
        """
        where = path_text(at)
        try:
            return self._adapter.validate_json(json.dumps(value)), ()
        except ValidationError as error:
            errors = error.errors(include_url=False, include_context=False, include_input=False)
            if (kept := self._without_nulls(value, errors)) is not value:
                return self.check(kept, at, expose_errors=expose_errors)
            return None, pydantic_problems([{**item, "loc": (*at, *item["loc"])} for item in errors], self._known)
        except ToolError as error:
            return None, [(where, safe_error_text(error, expose=True))]
        except Exception as error:  # noqa: BLE001
            _log.error("a validator of the output %s failed: %s", self._adapter, type(error).__name__, exc_info=error)
            told = f": {safe_error_text(error, expose=True)}" if expose_errors else ""
            return None, [(where, cut(f"a validator failed{told}"))]

    def dump(self, value: Any) -> str:
        """Return a value as JSON text; never raises."""
        try:
            return self._adapter.dump_json(value, by_alias=True, warnings=False).decode()
        except Exception as error:  # noqa: BLE001
            _log.warning("an output has no JSON form of its own: %s", type(error).__name__)
        try:
            return to_json(value, by_alias=True, serialize_unknown=True).decode()
        except Exception:  # noqa: BLE001
            return json.dumps(f"<{type(value).__name__}>")

    def _without_nulls(self, value: Any, errors: Sequence[Any]) -> Any:
        if not is_object(value):
            return value
        refused = {str(item["loc"][0]) for item in errors if item["loc"]}
        nulls = {key for key in self._optional & refused if key in value and value[key] is None}
        return {key: item for key, item in value.items() if key not in nulls} if nulls else value


def name_of(given: Any) -> str:
    """Return what a type is called in messages.

    >>> import datetime
    >>> name_of(int), name_of(list[datetime.date] | None)
    ('int', 'list[date] | None')
    """
    if get_origin(given) is Annotated:
        return name_of(get_args(given)[0])
    if isinstance(given, type) and not get_args(given):
        return given.__name__
    return cut(re.sub(r"\b(?:\w+\.|<locals>\.)+(?=\w)", "", repr(given)), 80)


def _require_type(given: Any) -> None:
    """Raise ConfigError for what people give by mistake and pydantic would take for a type."""
    if given is None or given is type(None):
        _refuse("None", f"says nothing of its form; {_EXAMPLES}")
    if isinstance(given, str):
        _refuse(repr(cut(given, 60)), "is a text; give the class itself")
    if is_list(given) or type(given) in (tuple, set):
        _refuse(cut(repr(given), 60), "is a collection; write list[...] for many values and `A | B` for one of several")
    if inspect.isroutine(given) or inspect.ismodule(given):
        _refuse(getattr(given, "__name__", repr(given)), f"is a {type(given).__name__} and no type; {_EXAMPLES}")
    if given is BaseModel:
        _refuse("BaseModel", "has no fields; give a class of your own")
    if not isinstance(given, type) and (isinstance(given, BaseModel) or dataclasses.is_dataclass(given)):
        _refuse(f"an instance of {type(given).__name__}", f"is no type; give {type(given).__name__} itself")


def _refuse(name: str, problem: str) -> NoReturn:
    raise ConfigError(f"the output {name} {problem}")


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
