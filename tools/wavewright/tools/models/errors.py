"""Faults of model calls, independent of the provider.

A *fault* says why there is no answer, whether to ask again, and whether the request may have been
charged. It holds no key and no part of the request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TypeAlias, cast

import httpx2
from pydantic_ai.exceptions import (
    AgentRunError,
    ContentFilterError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelRequestTimeout,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    UserError,
)

from wavewright.config import WavewrightError
from wavewright.planner.ports.model_port import ModelErrorKind, ModelOutcome
from wavewright.tools.models.guarded_client import ResponseTooLarge

_BODY_ERRORS = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RuntimeError,
)
"""What the providers' libraries raise over a body that is not what they expect."""
PROVIDER_ERRORS = (
    AgentRunError,
    UserError,
    httpx2.HTTPError,
    httpx2.StreamError,
    OSError,
    *_BODY_ERRORS,
)
"""Everything that a request to a provider may raise, errors of this program excepted."""

_MAX_QUOTE_CHARS = 300
_MAX_SHARED_WORDS = 24
"""Characters in a row that an error has in common with the question, before it counts as repeating
it.
"""


@dataclass(frozen=True, slots=True)
class ModelFault:
    """Why one request, or all of a call's, gave no answer."""

    kind: ModelErrorKind
    message: str
    hint: str | None = None
    is_retryable: bool = False
    """Whether the same request may be answered if it is made again."""
    retry_after: float | None = None
    """Seconds that the provider asked to wait."""
    is_free: bool = False
    """Whether it is sure that nothing was charged."""
    is_rate_limit: bool = False
    """Whether the provider answers once the rate of requests is lower."""
    is_of_provider: bool = False
    """Whether any other question to the model would fail for the same reason."""
    may_be_of_form: bool = False
    """Whether the same question may be answered where it asks for another form."""
    counts_answer: bool = False
    """Whether the same question may fit the model's context with a lower ceiling of its answer."""


class RequestFailed(WavewrightError):
    """A request ended in a fault."""

    def __init__(self, fault: ModelFault) -> None:
        super().__init__(fault.message)
        self.fault = fault


def may_fall_back(error: Exception) -> bool:
    """Tell whether another model may be asked: not over a budget, which all models share."""
    return isinstance(error, RequestFailed) and error.fault.kind != "over_budget"


def outcome_of(kind: ModelErrorKind) -> ModelOutcome:
    """Return how a call that ended in a fault is recorded."""
    match kind:
        case "refused" | "timeout" | "over_budget":
            return kind
        case _:
            return "failed"


def fault_of(error: Exception, model: str, asked: str) -> ModelFault:
    """Return what an exception of a provider's library means.

    `asked` is everything that was sent: the provider's words are quoted unless they repeat it.
    """
    if _caused_by(error, ResponseTooLarge):
        return ModelFault("bad_answer", f"{model} sent an answer that unpacks to more than is read")
    if isinstance(error, ContentFilterError):
        return ModelFault("refused", f"{model} refused: its content filter stepped in")
    if isinstance(error, ModelAPIError):
        return _api_fault(error, model, asked)
    if isinstance(error, (httpx2.TransportError, OSError)):
        return ModelFault(
            "unreachable", f"{model}: the connection broke", is_retryable=True, is_of_provider=True
        )
    if isinstance(error, UserError):
        return ModelFault(
            "denied", f"{model} cannot be asked this: {_quoted(error.message, asked)}", is_free=True
        )
    return ModelFault(
        "bad_answer", f"{model} sent an answer that cannot be used", is_retryable=True
    )


def _api_fault(error: ModelAPIError, model: str, asked: str) -> ModelFault:
    match error:
        case ModelRequestTimeout() | ModelTimeoutError():
            return ModelFault("timeout", f"{model} did not answer in time", is_retryable=True)
        case ModelConnectionError():
            return ModelFault(
                "unreachable",
                f"{model} cannot be reached",
                hint="check the network, and the address if it is your own",
                is_retryable=True,
                is_free=error.phase in {"pool", "connect"},
                is_of_provider=True,
            )
        case ModelHTTPError(status_code=status) if status >= 500 or status in {408, 409, 425, 429}:
            otherwise: ModelFault | None = _OVERLOADED
        case _:
            otherwise = _REJECTED if isinstance(error, ModelHTTPError) else None
    by_kind = next(
        (one for kinds, one in _API_FAULTS.items() if isinstance(error, kinds)), otherwise
    )
    words = _message_in(error.body)
    fault = _by_words(words, by_kind, error)
    if fault is None:
        said = _error_text(error, asked)
        return ModelFault(
            "bad_answer", f"{model} sent an answer that cannot be used{said}", is_retryable=True
        )
    return replace(
        fault,
        message=fault.message.format(model) + _error_text(error, asked),
        retry_after=error.retry_after if fault is _OVERLOADED else None,
        is_rate_limit=isinstance(error, ModelRateLimitError)
        or (
            isinstance(error, ModelHTTPError) and error.status_code == HTTPStatus.TOO_MANY_REQUESTS
        ),
        is_free=isinstance(error, ModelHTTPError) and not error.in_stream,
        may_be_of_form=fault.may_be_of_form
        # Some servers fail over a form that they do not know.
        or (
            fault is _OVERLOADED
            and isinstance(error, ModelHTTPError)
            and error.status_code in {500, 501}
        ),
        counts_answer=fault is _OVER_CONTEXT and _OF_ANSWER.search(words) is not None,
    )


def _by_words(words: str, by_kind: ModelFault | None, error: ModelAPIError) -> ModelFault | None:
    """Return what an error says, where its status says less: servers that are not OpenAI's have one
    status for the form, the context and the model's name.
    """
    if isinstance(error, ModelRateLimitError) or by_kind not in _VAGUE:
        return by_kind
    if _OF_FORM.search(words):
        # A gateway may have the model, and nobody who serves it in this form.
        return _REJECTED if by_kind is _UNKNOWN_MODEL else by_kind
    if _OF_CONTEXT.search(words):
        return _OVER_CONTEXT
    if by_kind is _UNKNOWN_MODEL and not _OF_ANY_MODEL.search(words):
        return _UNKNOWN_ADDRESS
    if by_kind is _REJECTED and _OF_MODEL.search(words):
        return _UNKNOWN_MODEL
    return by_kind


_REJECTED = ModelFault("denied", "{} rejected the request", may_be_of_form=True)
_OVERLOADED = ModelFault(
    "overloaded",
    "{} is overloaded or out of order",
    hint="ask again later, or name a model that stands in under models.fallbacks in wavewright.yaml",
    is_retryable=True,
    is_of_provider=True,
)
_OVER_CONTEXT = ModelFault(
    "over_context",
    "{} takes less text at once than was asked",
    hint="ask for less at once, or choose a model with a larger context window",
)
_UNKNOWN_MODEL = ModelFault(
    "denied",
    "the provider of {} knows no such model",
    hint="check the model's name, and the address if it is your own",
    is_of_provider=True,
)
_UNKNOWN_ADDRESS = ModelFault("bad_answer", "{} is not found at its address", is_of_provider=True)
_VAGUE = (None, _REJECTED, _OVERLOADED, _UNKNOWN_MODEL)
"""What a status may stand for that says nothing else."""
_API_FAULTS: Mapping[type[ModelAPIError] | tuple[type[ModelAPIError], ...], ModelFault] = {
    ModelContextWindowExceededError: _OVER_CONTEXT,
    ModelAuthenticationError: ModelFault(
        "denied",
        "{} denied the request",
        hint="check the provider's key, and that it may use this model",
        is_of_provider=True,
    ),
    ModelQuotaExceededError: ModelFault(
        "denied",
        "the account at the provider of {} is used up",
        hint="top up the account, or choose another model",
        is_of_provider=True,
    ),
    ModelNotFoundError: _UNKNOWN_MODEL,
    ModelRequestRejectedError: _REJECTED,
    (ModelRateLimitError, ModelUnavailableError, ModelServerError): _OVERLOADED,
}
"""What errors of interfaces mean, the first that fits; `{}` is the model, and the words of the
provider follow.
"""


_OF_FORM = re.compile(
    r"response_format|json_schema|json_object|structured outputs?|tool_choice|requested parameters"
    r"|(?:tool|function) (?:use|calling)",
    re.IGNORECASE,
)
"""In what a server says of the form that was asked for; the name of a model has no spaces."""
_OF_CONTEXT = re.compile(
    r"context[ _-]?(?:length|size|window)|maximum (?:input|sequence) length"
    r"|(?:input|prompt|request|messages?)\b[^.]{0,60}\b(?:too (?:long|large)|longer than)"
    r"|`inputs` (?:tokens|must have)",
    re.IGNORECASE,
)
"""In what it says of a question that is too long."""
_OF_ANSWER = re.compile(r"max_\w*tokens|completion|in the output", re.IGNORECASE)
"""In what it says then where it counts the answer with the question."""
_OF_MODEL = re.compile(
    r"(?:invalid|unknown|no such) model\b|\bmodel\b.{0,200}\b(?:does not exist|not found)",
    re.IGNORECASE,
)
"""In what it says of a model that it does not serve."""
_OF_ANY_MODEL = re.compile("model|endpoint", re.IGNORECASE)
"""In what it says of a model where the address is right."""


def _error_text(error: ModelAPIError, asked: str) -> str:
    """Return status and words of a provider's error, for the end of a sentence."""
    status = f" (HTTP {error.status_code})" if isinstance(error, ModelHTTPError) else ""
    text = _message_in(error.body)
    return f"{status}: {_quoted(text, asked)}" if text else status


_MESSAGE_KEYS = (
    *("error", "message", "msg", "detail", "errors", "error_description"),
    *("error_message", "description", "reason", "details", "fault", "faultstring", "text"),
)
"""Where servers put what they say about a request, in small letters or not."""
_KIND_KEYS = ("error", "title", "type", "code")
"""Where they name its kind, which stands in where nothing is said."""
_Object: TypeAlias = dict[str, object]
_MAX_BODY_DEPTH = 6
_MAX_MESSAGES = 3


def _message_in(body: object, depth: int = _MAX_BODY_DEPTH) -> str:
    """Return what an error's body says: a text, or what its members or elements say."""
    if depth == 0:
        return ""
    match body:
        case str(text):
            # A page is no message.
            return "" if text.lstrip().startswith("<") else _unwrapped(text, depth)
        case list():
            parts = cast("list[object]", body)
            said = (_message_in(part, depth - 1) for part in parts[:_MAX_MESSAGES])
            return "; ".join(text for text in said if text)
        case dict():
            members = {key.casefold(): value for key, value in cast("_Object", body).items()}
            text = _message_of_object(members, depth)
            return _place(members) + text if text else ""
        case _:
            return ""


def _message_of_object(body: Mapping[str, object], depth: int) -> str:
    # A text beside a message names the kind of error only, as in `{"error": "Bad Request", …}`.
    inner = [body[key] for key in _MESSAGE_KEYS if key in body]
    first = [part for part in inner if part is not body.get("error") or not isinstance(part, str)]
    kinds = [body[key] for key in _KIND_KEYS if key in body]
    said = (_message_in(part, depth - 1) for part in [*first, *kinds])
    return next((text for text in said if text), "")


def _unwrapped(text: str, depth: int) -> str:
    """Return the message in a text that is JSON itself, as proxies pass errors on; else the text."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        body: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return _message_in(body, depth - 1) or text


def _place(body: Mapping[str, object]) -> str:
    """Return which part of the request an error is about, where validators of requests say it."""
    place = body.get("loc")
    parts = cast("list[object]", place) if isinstance(place, list) else [place]
    if not parts or not all(isinstance(part, str | int) and part != "" for part in parts):
        return ""
    return ".".join(map(str, parts)) + ": "


def _quoted(text: str, asked: str) -> str:
    line = " ".join(text.split())
    if len(line) > _MAX_QUOTE_CHARS:
        # Cut between words: a key that was cut could not be known for one, and taken out.
        line = line[:_MAX_QUOTE_CHARS].rpartition(" ")[0] + " …"
    pieces = (
        line[at : at + _MAX_SHARED_WORDS] for at in range(max(1, len(line) - _MAX_SHARED_WORDS + 1))
    )
    flat = " ".join(asked.split())
    if len(line) >= _MAX_SHARED_WORDS and any(piece in flat for piece in pieces):
        return "its message repeats what was asked, and is left out"
    return line


def _caused_by(error: BaseException | None, kind: type[BaseException]) -> bool:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, kind):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def merged_fault(faults: list[ModelFault]) -> ModelFault:
    """Return one fault for those of all models that were asked: the first that may pass, else the
    first.
    """
    lasting = next(
        (one for one in faults if one.kind in {"unreachable", "overloaded", "timeout"}), faults[0]
    )
    return ModelFault(
        lasting.kind,
        "; ".join(one.message for one in faults),
        hint=lasting.hint,
        retry_after=min(
            (one.retry_after for one in faults if one.retry_after is not None), default=None
        ),
        is_of_provider=all(one.is_of_provider for one in faults),
    )
