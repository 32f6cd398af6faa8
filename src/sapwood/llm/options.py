"""What a provider is told when it is made: where it is, how it is reached, and what each request adds.

Laws: one set of options for every provider; one that a provider has no use for is refused by name, not
dropped; a sampling parameter that the model does not take is left out with one warning.
"""

import difflib
import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import msgspec

from sapwood.core.errors import ConfigError
from sapwood.core.model import ModelProfile, ModelRequest
from sapwood.llm.check_options import check_options
from sapwood.llm.shapes import is_tuple

if TYPE_CHECKING:
    from sapwood.llm.codec import Timeouts
    from sapwood.llm.transport import Transport

log = logging.getLogger("sapwood.llm")
ThinkingOption: TypeAlias = bool | int | str
"""On or off, a budget of tokens, or a level such as `low`, `medium` and `high`."""
DEFAULT_BUDGET = 4_096
"""Tokens of thinking where it is asked for by `True` and the model wants a number."""
THINKING_ROOM = 8_192
"""Tokens that a model which counts its thinking itself may take for it, beside the answer."""
MIN_BUDGET = 1_024
"""Tokens of thinking that Anthropic's protocol takes at least."""
MIN_TOP_P = 0.95
"""The smallest `top_p` that it takes beside thinking."""
SAMPLING = ("temperature", "top_p", "top_k", "stop", "seed")
_WORDS = {"budget": "a number of tokens", "effort": "a level", "level": "a level", "adaptive": "a level or True"}


class ModelOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider object adds to every request.

    max_tokens: the reply's cap where the request names none. temperature, top_p, top_k, stop, seed: sampling;
    stop is a text or several. thinking: True or False, tokens, or a level; None leaves it to the provider.
    betas: names of beta features. extra_body: further fields of the body; they replace ours, and None takes
    one of ours away. extra_headers: further headers.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    thinking: ThinkingOption | None = None
    betas: tuple[str, ...] = ()
    extra_body: Mapping[str, Any] = {}
    extra_headers: Mapping[str, str] = {}

    def sampling(self, names: Mapping[str, str]) -> dict[str, Any]:
        """Return the sampling parameters that were given, under the provider's names for them.

        names: our name -> the provider's; one that is missing here is not known to the provider.
        """
        given = {name: getattr(self, name) for name in SAMPLING}
        return {
            names[name]: _plain(value) for name, value in given.items() if name in names and value not in (None, ())
        }


class ProviderOptions(TypedDict, total=False):
    """The keyword arguments of every provider's class and of `create_provider`.

    base_url, api_key: None reads the environment at the first call. provider: who answers, for keys, facts and
    for what goes back to whom. transport: moves the bytes. auth: an `httpx2.Auth` that signs each request.
    timeouts: seconds for a connection and between two pieces. profile: replaces what is known of the model.
    The others are those of `ModelOptions`.
    """

    base_url: str | None
    api_key: str | None
    provider: str
    transport: "Transport | None"
    auth: Any
    timeouts: "Timeouts"
    profile: ModelProfile | None
    max_tokens: int | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    stop: str | Iterable[str]
    seed: int | None
    thinking: ThinkingOption | None
    betas: Iterable[str]
    extra_body: Mapping[str, Any] | None
    extra_headers: Mapping[str, str] | None


_CONNECTION = ("base_url", "api_key", "provider", "transport", "auth", "timeouts", "profile")


def model_options(given: Mapping[str, Any], profile: ModelProfile) -> ModelOptions:
    """Return what each request of this model adds, checked against what the model takes.

    Raises ConfigError for an option that does not exist or that cannot work with the model.

    >>> model_options({"temperature": 0.2, "stop": "END"}, ModelProfile()).stop
    ('END',)
    """
    known = (*_CONNECTION, *ModelOptions.__struct_fields__)
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f" (there are: {', '.join(known)})"
            raise ConfigError(f"a provider has no option {name!r}{hint}")
    fields = {name: value for name, value in given.items() if name not in _CONNECTION and value is not None}
    check_options(fields)
    stop = fields.get("stop")
    if stop is not None:
        fields["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
    betas = fields.get("betas", ())
    if isinstance(betas, str):
        raise ConfigError(f"betas must be a list of names, such as [{betas!r}]")
    fields["betas"] = tuple(betas)
    for name in profile.refused_parameters:
        if fields.pop(name, None) is not None:
            log.warning("%s does not take %s; it is left out", profile.origin, name)
    _check_thinking(fields.get("thinking"), profile)
    return ModelOptions(**fields)


def thinking_budget(options: ModelOptions) -> int | None:
    """Return the tokens that thinking may take where they are counted, None where it is not asked for.

    >>> thinking_budget(ModelOptions(thinking=True)), thinking_budget(ModelOptions(thinking=2_000))
    (4096, 2000)
    """
    asked = options.thinking
    if asked is None or asked is False:
        return None
    return DEFAULT_BUDGET if isinstance(asked, bool | str) else asked


def reply_cap(request: ModelRequest, options: ModelOptions, profile: ModelProfile, default: int = 0) -> int:
    """Return the cap on a reply as it is sent, 0 for none.

    Providers count thinking as a part of the reply, so what a request asks for is meant for the answer, and room
    for thinking comes on top; without it a model that thinks would often end before its first word. A cap that
    the provider object was given counts where it is not larger, and is sent as it is, but for a budget of thinking,
    which must be smaller.

    >>> from sapwood.core.transcript import Transcript
    >>> request = ModelRequest(Transcript(), max_tokens=1_000)
    >>> [reply_cap(request, ModelOptions(), ModelProfile(thinks=thinks)) for thinks in (True, False)]
    [9192, 1000]
    """
    own = options.max_tokens
    is_own = own is not None and own <= (request.max_tokens or own)
    asked = (own if is_own else request.max_tokens) or default
    if not asked:
        return 0
    room = 0
    if profile.thinking == "budget" or (isinstance(options.thinking, int) and options.thinking is not True):
        room = thinking_budget(options) or 0
    thinks = profile.thinks if options.thinking is None else bool(options.thinking)
    if not room and thinks and request.max_tokens and not is_own:
        room = THINKING_ROOM
    return min(asked + room, profile.max_output_tokens or asked + room)


def _check_thinking(thinking: ThinkingOption | None, profile: ModelProfile) -> None:
    mode = profile.thinking
    if thinking is False and profile.always_thinks:
        raise ConfigError(f"{profile.origin} always thinks; leave thinking= out")
    if thinking is None or thinking is False:
        return
    if mode == "none" and profile.known:
        raise ConfigError(f"{profile.origin} does not think on demand; leave thinking= out")
    is_number = isinstance(thinking, int) and not isinstance(thinking, bool)
    if isinstance(thinking, int) and is_number and mode == "budget" and 0 < profile.max_output_tokens <= thinking:
        raise ConfigError(
            f"{profile.origin} writes {profile.max_output_tokens:,} tokens at most, its thinking included; "
            f"thinking={thinking!r} leaves none for an answer"
        )
    if (is_number and mode in ("effort", "level", "adaptive")) or (isinstance(thinking, str) and mode == "budget"):
        raise ConfigError(f"{profile.origin} takes {_WORDS[mode]} as thinking=, not {thinking!r}")


def with_thinking(options: ModelOptions, profile: ModelProfile) -> ModelOptions:
    """Return the options without what Anthropic's protocol refuses beside thinking, with one warning.

    Raises ConfigError for fewer tokens of thinking than it takes.
    Source: Anthropic's documentation of extended thinking, "Feature compatibility".
    """
    asked = options.thinking
    if asked is None or asked is False:
        return options
    if not isinstance(asked, bool | str) and asked < MIN_BUDGET:
        raise ConfigError(
            f"thinking={asked!r} is too little for {profile.origin}: {MIN_BUDGET:,} tokens at least, or False"
        )
    refused = {
        "temperature": options.temperature not in (None, 1),
        "top_k": options.top_k is not None,
        "top_p": options.top_p is not None and options.top_p < MIN_TOP_P,
    }
    names = [name for name, is_refused in refused.items() if is_refused]
    if not names:
        return options
    log.warning("%s does not take %s while it thinks; it is left out", profile.origin, ", ".join(names))
    return msgspec.structs.replace(options, **dict.fromkeys(names))


def _plain(value: Any) -> Any:
    return list(value) if is_tuple(value) else value
