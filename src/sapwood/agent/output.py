"""The structured output of an agent: how it is asked for, read, and missed.

Law: whoever asked for an output gets the instance that was validated, never one that was dumped and read again.
"""

from typing import Any

import msgspec

from sapwood.core.errors import ConfigError, OutputMissingError, RunPausedError
from sapwood.core.model import OutputMode
from sapwood.core.output_type import OutputType
from sapwood.core.own_cancel import as_tool_error
from sapwood.core.partial_json import GrowingJson
from sapwood.core.tools import JsonObject
from sapwood.loop.spec import LiveTurn
from sapwood.sources.output import nudge_to_call, nudge_to_correct

MODES: tuple[OutputMode, ...] = ("tool", "native", "prompted")


class Output(msgspec.Struct, frozen=True):
    """What an agent owes. mode: as it was asked for; where a model takes no schema, `native` becomes `tool`."""

    type: OutputType
    mode: OutputMode = "tool"

    @property
    def schema(self) -> JsonObject:
        """The schema that the model sees; of type object."""
        return self.type.schema

    def read(self, arguments: JsonObject, *, expose_errors: bool) -> tuple[Any, str]:
        """Return the instance and its JSON text; raises OutputInvalid."""
        with as_tool_error("the check of the output"):
            instance = self.type.validate(arguments, expose_errors=expose_errors)
        return instance, self.type.dump(instance)

    def read_text(self, text: str, *, expose_errors: bool) -> tuple[Any, str]:
        """Return the same for a reply in text."""
        with as_tool_error("the check of the output"):
            instance = self.type.validate_text(text, expose_errors=expose_errors)
        return instance, self.type.dump(instance)

    def growing(self) -> GrowingJson:
        """Return what shows the output while it streams."""
        return self.type.growing()

    def ask_again(self, error: str, mode: OutputMode) -> str:
        """Return the word to a model whose text was not the output."""
        return nudge_to_call() if mode == "tool" else nudge_to_correct(error)


def output_of(model: object, mode: object) -> Output:
    """Return what an agent owes from now on; raises ConfigError for what is no type, or no mode."""
    if mode not in MODES:
        raise ConfigError(f"mode is one of {', '.join(MODES)}, not {mode!r}")
    return Output(OutputType(model), mode)


def value_of(live: LiveTurn, output: Output) -> Any:
    """Return the output of a turn that is over.

    Raises RunPausedError where it waits for a person, OutputMissingError where it ended without an output.
    """
    run = live.run
    if run.phase == "paused":
        waiting = ", ".join(f"{request.id} ({request.name})" for request in run.waiting()) or "a limit"
        raise RunPausedError(f"run {run.run_id!r} waits for {waiting}; resume it, then look at last_output")
    if live.has_output:
        return live.output
    attempts = run.output_failures
    tries = "1 attempt" if attempts == 1 else f"{attempts} attempts"
    reason = run.output_error or "the model never handed it in"
    raise OutputMissingError(
        f"the turn ended ({run.stopped_by}) without a valid {output.type.name} after {tries}: {reason}",
        output=output.type.name,
        attempts=attempts,
        last_error=run.output_error,
        stopped_by=run.stopped_by,
        messages=tuple(live.messages(run)),
    )
