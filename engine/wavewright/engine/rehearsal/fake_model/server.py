"""A model server on loopback that answers by rules: OpenAI's two APIs and Anthropic's, streams and
faults included.

A *rule* has a condition on the request, in a form that is the same for all providers, and one or
more answers. The first rule that fits and has an answer left is used; a request that no rule fits
gets an error that names the rules. Every request is kept in the *ledger*, without its key.

    with FakeModelServer() as server:
        server.answer({"steps": []}, when=asked_for("plan"))
        server.answer(overloaded(), "now it works", when="Summarise")   # a queue: each once
        server.answer(lambda request: request.prompt.upper())
        environment = server.environment()

`wavewright fake-model --script FILE` serves the rules of a file in YAML:

    answers:
      - when: {schema: plan}              # name of the structured answer that is asked for json:
        {steps: []}                 # given by the output tool, or as JSON, as the request wants it
      - when: {contains: "Summarise", wire: chat, stream: true}
        text: A short summary.
      - when: {offers: search}
        calls: [{name: search, arguments: {q: waves}}]
        times: 1
      - fault: {name: overloaded, retry_after: 2}
        times: 1
      - text: Anything else.

The first rule that fits answers: for ever, or as often as `times`. `when` may be left out; all that
it holds must be
true: `contains` (a text anywhere in what is asked), `schema`, `offers` (a tool), `model`, `wire`
(`chat`, `responses`, `messages`), `stream`. One of `text`, `json`, `calls` and `fault` says what is
answered; `delay` (seconds) may stand
beside the first three. The faults: `overloaded`, `failing` (`status`), `denied` (`status`),
`over_context`, `silence`, `slow_drip` (`interval`), `cut_stream`, `cut_at_length`, `no_choices`,
`filtered`, `refusing`, `gzip_bomb`, `no_json`, `no_usage`.
"""

from __future__ import annotations

import json
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, JsonValue, model_validator

from wavewright.config import read_document_file
from wavewright.config.model_validation import read_as_model
from wavewright.engine.rehearsal.fake_model import replies as made
from wavewright.engine.rehearsal.fake_model.replies import (
    Answer,
    AnswerLike,
    AnswerMaker,
    ApiError,
    Exchange,
    Reply,
    RequestLog,
    Rule,
    RuleTest,
    answer_of,
)
from wavewright.engine.rehearsal.fake_model.request import FakeModelRequest, FakeToolCall, Wire
from wavewright.tools.models.endpoints import PROBE_NAME, PROBE_WORD

if TYPE_CHECKING:
    from wavewright.engine.rehearsal.fake_model.http_server import ServerThread


HoldsBy: TypeAlias = Literal["native", "tool", "nothing"]
"""How a server can be asked for a form: `native` by `response_format`."""

API_KEY = "sk-scripted-0123456789abcdef"
"""The key that `environment()` gives; the server takes any."""


def asked_for(schema_name: str) -> RuleTest:
    """Match requests for a structured answer of this name."""
    return lambda request: request.schema_name == schema_name


def offering(tool: str) -> RuleTest:
    """Match requests that offer this tool."""
    return lambda request: tool in request.tool_names


class FakeModelServer:
    """The server: a context manager that serves on loopback, in a thread of its own, while its
    block runs.
    """

    def __init__(
        self, port: int = 0, *, holds_by: HoldsBy = "native", over_forms: Answer | None = None
    ) -> None:
        """Make a server.

        Args:
            port: Where it listens; any free one where it is 0.
            holds_by: How it can be asked for a form.
            over_forms: What a probe gets for any other form; words where absent.
        """
        self._holds_by = holds_by
        self._over_forms = Reply(text="Blue.") if over_forms is None else over_forms
        self._rules: list[Rule] = []
        self._ledger = RequestLog()
        self._port = port
        self._thread: ServerThread | None = None
        self._url = ""
        self.broken: list[Exception] = []
        """Exceptions that callables of rules raised."""

    def __enter__(self) -> Self:
        # Bound before the server starts: its address is known, and early requests wait instead of
        # being refused.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", self._port))
        except OSError:
            listener.close()
            raise
        listener.listen(1024)
        self._url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        from wavewright.engine.rehearsal.fake_model.http_server import ServerThread

        self._thread = ServerThread(listener, self.decide, self._track)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._thread is not None
        self._thread.stop()

    @property
    def url(self) -> str:
        """Address without a path: what Anthropic's client takes."""
        return self._url

    @property
    def openai_url(self) -> str:
        """Address that OpenAI's clients take."""
        return f"{self._url}/v1"

    def environment(self, wire: Wire = "chat", model: str = "scripted") -> dict[str, str]:
        """Return the variables that make this server the model, over one of the wires."""
        provider, prefix, url = {
            "chat": ("openai-chat", "WAVEWRIGHT", self.openai_url),
            "responses": ("openai", "OPENAI", self.openai_url),
            "messages": ("anthropic", "ANTHROPIC", self.url),
        }[wire]
        return {
            "WAVEWRIGHT_MODEL": f"{provider}:{model}",
            f"{prefix}_BASE_URL": url,
            f"{prefix}_API_KEY": API_KEY,
        }

    def answer(
        self,
        *with_: AnswerLike | AnswerMaker,
        when: RuleTest | str | None = None,
        times: int | None = None,
        name: str = "",
    ) -> None:
        """Add a rule.

        Args:
            with_: What it answers: one answer for ever, or as often as `times`; several are a
                queue, each given once.
            when: What the request must be: a test, or a text that it must hold; anything where
                absent.
            times: How often it answers; the last of several answers is repeated until then.
            name: What the ledger calls it.
        """
        assert with_, "a rule needs an answer"
        left = len(with_) if times is None and len(with_) > 1 else times
        with self._ledger.changed:
            title = name or f"rule {len(self._rules) + 1}"
            self._rules.append(Rule(title, _condition(when), deque(with_), left))

    def reset(self) -> None:
        """Forget rules and ledger, and end the answers that are still being sent."""
        if self._thread is not None:
            self._thread.release()
        with self._ledger.changed:
            self._rules.clear()
            self.broken.clear()
            self._ledger.exchanges.clear()
            self._ledger.max_in_flight = self._ledger.in_flight

    @property
    def ledger(self) -> Sequence[Exchange]:
        """Every request and its answer so far, in order."""
        with self._ledger.changed:
            return tuple(self._ledger.exchanges)

    @property
    def requests(self) -> Sequence[FakeModelRequest]:
        """Every request so far, in order."""
        return tuple(exchange.request for exchange in self.ledger)

    @property
    def unmatched(self) -> Sequence[FakeModelRequest]:
        """Requests that no rule fitted."""
        return tuple(exchange.request for exchange in self.ledger if not exchange.rule)

    @property
    def max_in_flight(self) -> int:
        """How many requests were under way at once, at most."""
        with self._ledger.changed:
            return self._ledger.max_in_flight

    def wait_for_requests(self, count: int, timeout: float = 20.0) -> Sequence[FakeModelRequest]:
        """Wait until so many requests have come, answered or not.

        Raises:
            TimeoutError: they have not.
        """
        with self._ledger.changed:
            if not self._ledger.changed.wait_for(
                lambda: len(self._ledger.exchanges) >= count, timeout
            ):
                raise TimeoutError(f"{len(self._ledger.exchanges)} requests came, not {count}")
        return self.requests

    def wait_until_idle(self, timeout: float = 20.0) -> None:
        """Wait until no request is under way.

        Raises:
            TimeoutError: one still is.
        """
        with self._ledger.changed:
            if not self._ledger.changed.wait_for(lambda: self._ledger.in_flight == 0, timeout):
                raise TimeoutError(f"{self._ledger.in_flight} requests are still under way")

    def decide(self, request: FakeModelRequest) -> tuple[Answer, int]:
        """Return the answer to a request and its number, and write both down.

        What a client asks to find out how the server can be asked is answered by what it is, and is
        in no ledger.
        """
        if request.schema_name == PROBE_NAME:
            return self._probe_answer(request), 0
        with self._ledger.changed:
            rule = next(
                (rule for rule in self._rules if rule.left != 0 and rule.test(request)), None
            )
            given = (
                rule.take()
                if rule
                else _unmatched_error(request, [rule.name for rule in self._rules])
            )
            answer = self._resolve_answer(given, request)
            number = len(self._ledger.exchanges) + 1
            name = rule.name if rule else ""
            self._ledger.exchanges.append(Exchange(number, request, name, answer, time.monotonic()))
            self._ledger.changed.notify_all()
        return answer, number

    def _probe_answer(self, request: FakeModelRequest) -> Answer:
        way = "native" if request.output_tool is None else "tool"
        if self._holds_by == way:
            return made.structured({"word": PROBE_WORD})
        has_form = bool(request.tools) or "response_format" in (request.body or {})
        return self._over_forms if has_form else Reply(text="Blue.")

    def _resolve_answer(
        self, answer: AnswerLike | AnswerMaker, request: FakeModelRequest
    ) -> Answer:
        try:
            return answer_of(answer(request) if callable(answer) else answer)
        except Exception as error:  # noqa: BLE001 - the rule is the user's code: kept for the owner, and an error for the client
            self.broken.append(error)
            return ApiError(500, f"a rule of the fake model broke: {error!r}", "broken_rule")

    def _track(self, change: int) -> None:
        with self._ledger.changed:
            self._ledger.in_flight += change
            self._ledger.max_in_flight = max(self._ledger.max_in_flight, self._ledger.in_flight)
            self._ledger.changed.notify_all()


def _condition(when: RuleTest | str | None) -> RuleTest:
    if when is None or isinstance(when, str):
        condition = when or ""
        return lambda request: condition in request.text
    return when


def _unmatched_error(request: FakeModelRequest, rules: Sequence[str]) -> ApiError:
    asked = f"schema {request.schema_name!r}, tools {list(request.tool_names)}, prompt {request.prompt[:80]!r}"
    had = ", ".join(rules) or "there is none"
    return ApiError(
        500, f"no rule of the fake model fits this request ({asked}); rules: {had}", "no_rule"
    )


class _ScriptSection(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=lambda name: name.rstrip("_")
    )


class RequestCondition(_ScriptSection):
    """A condition on requests; a field that is absent matches any."""

    contains: str | None = None
    schema_: str | None = None
    offers: str | None = None
    model: str | None = None
    wire: Literal["chat", "responses", "messages"] | None = None
    stream: bool | None = None

    def fits(self, request: FakeModelRequest) -> bool:
        """Whether a request is like that."""
        return (
            (self.contains is None or self.contains in request.text)
            and (self.schema_ is None or self.schema_ == request.schema_name)
            and (self.offers is None or self.offers in request.tool_names)
            and (self.model is None or self.model == request.model)
            and (self.wire is None or self.wire == request.wire)
            and (self.stream is None or self.stream == request.is_stream)
        )


class ScriptedCall(_ScriptSection):
    """A call of a tool."""

    name: str
    arguments: dict[str, JsonValue] = {}


FaultName: TypeAlias = Literal[
    "overloaded",
    "failing",
    "denied",
    "over_context",
    "silence",
    "slow_drip",
    "cut_stream",
    "cut_at_length",
    "no_choices",
    "filtered",
    "refusing",
    "gzip_bomb",
    "no_json",
    "no_usage",
]


class ScriptedFault(_ScriptSection):
    """A fault of the server or of its answer."""

    name: FaultName
    status: int | None = None
    retry_after: float | None = None
    interval: float = 0.05
    text: str = "an answer that something happens to"

    def answer(self) -> Answer:
        """Return the fault as an answer."""
        makers: dict[FaultName, Callable[[], Answer]] = {
            "overloaded": lambda: made.overloaded(self.retry_after),
            "failing": lambda: made.failing(self.status or 500, self.retry_after),
            "denied": lambda: made.denied(self.status or 403),
            "over_context": made.over_context,
            "silence": made.silence,
            "slow_drip": lambda: made.slow_drip(self.text, self.interval),
            "cut_stream": lambda: made.cut_stream(self.text),
            "cut_at_length": lambda: made.cut_at_length(self.text),
            "no_choices": made.no_choices,
            "filtered": made.filtered,
            "refusing": made.refusing,
            "gzip_bomb": made.gzip_bomb,
            "no_json": made.no_json,
            "no_usage": lambda: made.with_usage(self.text, "missing"),
        }
        return makers[self.name]()


class ScriptedRule(_ScriptSection):
    """One rule."""

    when: RequestCondition = RequestCondition()
    text: str | None = None
    json_: JsonValue | None = None
    calls: list[ScriptedCall] | None = None
    fault: ScriptedFault | None = None
    times: int | None = None
    delay: float = 0.0

    @model_validator(mode="after")
    def _one_answer(self) -> Self:
        if sum(given is not None for given in (self.text, self.json_, self.calls, self.fault)) != 1:
            raise ValueError("a rule has exactly one of text, json, calls and fault")
        return self

    def answer(self) -> Answer:
        """Return what the rule answers."""
        if self.fault is not None:
            return self.fault.answer()
        if self.calls is not None:
            calls = tuple(
                FakeToolCall(call.name, json.dumps(call.arguments)) for call in self.calls
            )
            return Reply(calls=calls, delay=self.delay)
        if self.text is not None:
            return Reply(text=self.text, delay=self.delay)
        return replace(made.structured(self.json_), delay=self.delay)


class FakeModelScript(_ScriptSection):
    """The whole file."""

    answers: list[ScriptedRule]


def add_script(server: FakeModelServer, path: Path) -> None:
    """Add the rules of a file to a server.

    Raises:
        DocumentError: the file is no such script; the faults name their lines.
    """
    for rule in read_as_model(read_document_file(path), FakeModelScript).answers:
        server.answer(rule.answer(), when=rule.when.fits, times=rule.times)


def describe_exchange(exchange: Exchange) -> str:
    """Return one line about an exchange."""
    request = exchange.request
    asked = request.schema_name or ", ".join(request.tool_names) or "text"
    how = "streamed" if request.is_stream else "whole"
    answer = type(exchange.answer).__name__.lower()
    rule = exchange.rule or "no rule fits"
    size = f"{request.character_count} characters"
    return f"{exchange.number:4}  {request.wire:9} {request.model}: {asked}, {how}, {size} -> {rule}: {answer}"
