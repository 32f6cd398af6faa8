"""The tree of errors. Only what a caller must act on is raised.

    SapwoodError
    ├── ConfigError              the set-up is wrong; raised before any call
    │   ├── ToolNameCollision
    │   └── ProviderNotInstalledError
    ├── LLMError                 the model did not answer
    │   ├── RateLimitError · ServerError · LLMTimeoutError      (worth another try)
    │   ├── AuthenticationError · ModelNotFoundError · ContentFilterError
    │   └── ContextOverflowError                                (the request is too long)
    ├── StoreError               a store could not read or write
    │   ├── ConflictError        somebody else wrote meanwhile
    │   ├── HistoryDiverged      a stored run does not fit together
    │   ├── DiskFullError        no room; what was stored before is intact
    │   └── TooLargeError        one event is over the size that a store takes
    ├── RunPausedError           the run waits for a person
    ├── OutputMissingError       a run ended without a valid output
    ├── PipelineExecutionError   a step of a context pipeline failed
    │   └── StepResultError      it returned something else than items
    ├── UsageLimitError          a usage limit was reached whose policy is to raise
    ├── ConversationBusyError    another turn runs on the same conversation
    ├── RunCancelledError        the turn was told to stop
    ├── StepTimeoutError · StepCancelledError    a step did not end by itself
    ├── BlockingCallError        something async was met where nothing can await it
    └── ToolError                raised BY tools: its message is meant for the model

Laws: no key and no full prompt ever stands in a message. Inside a turn a tool's failure, a limit
and a denial are data, not exceptions.
"""

from collections.abc import Mapping

from sapwood.core.messages import Message


class SapwoodError(Exception):
    """Anything that this library raises on purpose."""


class ConfigError(SapwoodError, ValueError):
    """The set-up is wrong; the message names the value and the way out."""


class ToolNameCollision(ConfigError):
    """Two tools would get one name towards the model."""


class ProviderNotInstalledError(ConfigError):
    """A provider or an extra is not known or not installed; the message says what to install."""


class LLMError(SapwoodError):
    """The model did not answer.

    provider, model: who was asked. status: the HTTP status, where there was one.
    request_id: the provider's own id of the request, for its support.
    is_transient: another try may succeed.
    retry_after_seconds: how long the provider asked to wait.
    partial: the part of the reply that had been shown before the failure.
    """

    is_transient: bool = False

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        model: str = "",
        status: int | None = None,
        request_id: str | None = None,
        is_transient: bool | None = None,
        retry_after_seconds: float | None = None,
        partial: Message | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.provider = provider
        self.model = model
        self.status = status
        self.request_id = request_id
        self.retry_after_seconds = retry_after_seconds
        self.partial = partial
        if is_transient is not None:
            self.is_transient = is_transient

    def __str__(self) -> str:
        """The message, followed by what is known of the request."""
        known = [
            f"provider={self.provider}" if self.provider else "",
            f"model={self.model}" if self.model else "",
            f"status={self.status}" if self.status is not None else "",
            f"request_id={self.request_id}" if self.request_id else "",
        ]
        context = ", ".join(part for part in known if part)
        return f"{self.message} ({context})" if context else self.message

    def __reduce__(self) -> tuple[type["LLMError"], tuple[str], dict[str, object]]:
        return type(self), (self.message,), self.__dict__.copy()


class RateLimitError(LLMError):
    """Too many requests (429)."""

    is_transient = True


class ServerError(LLMError):
    """The provider failed (5xx), is overloaded, or its stream or connection broke off."""

    is_transient = True


class LLMTimeoutError(LLMError):
    """No answer in time."""

    is_transient = True


class AuthenticationError(LLMError):
    """The key is missing, wrong or not allowed (401, 403)."""


class ModelNotFoundError(LLMError):
    """The provider does not know the model (404)."""


class ContentFilterError(LLMError):
    """The provider refused the content."""


class ContextOverflowError(LLMError):
    """The request does not fit the model's window.

    sizes: estimated tokens by section. requested_tokens, limit_tokens: what went in, and what the model or its server
    takes, in its own tokens; None where it did not say.
    """

    def __init__(
        self,
        message: str,
        *,
        sizes: Mapping[str, int] | None = None,
        requested_tokens: int | None = None,
        limit_tokens: int | None = None,
        **context: object,
    ) -> None:
        super().__init__(message, **context)  # type: ignore[arg-type]
        self.sizes = dict(sizes or {})
        self.requested_tokens = requested_tokens
        self.limit_tokens = limit_tokens


class CompactionError(SapwoodError):
    """A summary could not be used: it is empty, broke off, or says more than it replaces; the history is as it was."""


class StoreError(SapwoodError):
    """A store could not read or write."""


class ConflictError(StoreError):
    """Somebody else wrote between the read and the write; load again and repeat."""


class HistoryDiverged(StoreError):
    """The journal of a run does not fit together, so the run is not gone on with; nothing is guessed.

    run_id: the run. seq: the number of the first event that does not fit, 0 where none can be named.
    """

    def __init__(self, message: str, *, run_id: str = "", seq: int = 0) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.seq = seq


class DiskFullError(StoreError):
    """There is no room for what was to be stored; make room and repeat, as what was stored before is intact."""


class TooLargeError(StoreError):
    """One event or message is larger than a store takes; keep such content elsewhere and store its address."""


class RunPausedError(SapwoodError):
    """The run waits for a person; answer it or deny it first."""


class OutputMissingError(SapwoodError, ValueError):
    """The run ended without a valid output.

    output: the name of its type. attempts: answers that were refused. last_error: why the last was. stopped_by: why
    the turn ended. messages: all of it, so that nothing is lost.
    """

    def __init__(
        self,
        message: str,
        *,
        output: str = "",
        attempts: int = 0,
        last_error: str | None = None,
        stopped_by: str | None = None,
        messages: tuple[Message, ...] = (),
    ) -> None:
        super().__init__(message)
        self.output = output
        self.attempts = attempts
        self.last_error = last_error
        self.stopped_by = stopped_by
        self.messages = messages

    def __reduce__(self) -> tuple[type["OutputMissingError"], tuple[str], dict[str, object]]:
        return type(self), (str(self),), self.__dict__.copy()


class PipelineExecutionError(SapwoodError):
    """A step of a context pipeline failed; its own error is the cause.

    step: its name. diagnostics: what was known until then, with `failed_step`.
    """

    def __init__(self, message: str, *, step: str = "", diagnostics: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.step = step
        self.diagnostics = dict(diagnostics or {})

    def __reduce__(self) -> tuple[type["PipelineExecutionError"], tuple[str], dict[str, object]]:
        return type(self), (str(self),), self.__dict__.copy()


class StepResultError(PipelineExecutionError, TypeError):
    """A step of a context pipeline returned something else than a list of items."""


class UsageLimitError(SapwoodError):
    """A usage limit was reached whose policy is `raise`. breach: which one, and by how much (a LimitBreach)."""

    def __init__(self, message: str, *, breach: object = None) -> None:
        super().__init__(message)
        self.breach = breach

    def __reduce__(self) -> tuple[type["UsageLimitError"], tuple[str], dict[str, object]]:
        return type(self), (str(self),), self.__dict__.copy()


class ConversationBusyError(SapwoodError):
    """Another turn runs on the same conversation.

    run_id: the run of that turn, where it is known.
    """

    def __init__(self, message: str = "", *, run_id: str = "") -> None:
        super().__init__(message)
        self.run_id = run_id


class RunCancelledError(SapwoodError):
    """The turn was told to stop through its CancelToken."""


class StepTimeoutError(SapwoodError, TimeoutError):
    """A runtime ended a step at its time limit; a function's own TimeoutError is never one of these."""


class StepCancelledError(SapwoodError):
    """Something inside a step was cancelled, and it was not the turn."""


class BlockingCallError(SapwoodError, TypeError):
    """Something async was met by the synchronous API where nothing can await it: inside a running event loop, say."""


class ToolError(SapwoodError):
    """Raise this from a tool: its message goes to the model as it is.

    >>> raise ToolError("no such customer; search by e-mail instead")
    Traceback (most recent call last):
    sapwood.core.errors.ToolError: no such customer; search by e-mail instead
    """


class ToolInputError(ToolError):
    """The arguments of a call do not fit the tool; the tool was not run."""
