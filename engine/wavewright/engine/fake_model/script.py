"""The form of a script: rules of the fake model in YAML.

    answers:
      - when: {schema: plan}              # name of the structured answer that is asked for
        json: {steps: []}                 # given by the output tool, or as JSON, as the request wants it
      - when: {contains: "Summarise", wire: chat, stream: true}
        text: A short summary.
      - when: {offers: search}
        calls: [{name: search, arguments: {q: waves}}]
        times: 1
      - fault: {name: overloaded, retry_after: 2}
        times: 1
      - text: Anything else.

The first rule that fits answers: for ever, or as often as `times`. `when` may be left out; all that it holds must be
true: `contains` (a text anywhere in what is asked), `schema`, `offers` (a tool), `model`, `wire` (`chat`, `responses`,
`messages`), `stream`. One of `text`, `json`, `calls` and `fault` says what is answered; `delay` (seconds) may stand
beside the first three. The faults: `overloaded`, `failing` (`status`), `denied` (`status`), `over_context`,
`silence`, `slow_drip` (`interval`), `cut_stream`, `cut_at_length`, `no_choices`, `filtered`, `refusing`, `gzip_bomb`,
`no_json`, `no_usage`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, JsonValue, model_validator

from wavewright.config.documents import read_document_file
from wavewright.config.model_validation import read_as_model
from wavewright.engine.fake_model import replies as made
from wavewright.engine.fake_model.replies import Answer, Exchange, Reply
from wavewright.engine.fake_model.request import FakeModelRequest, FakeToolCall

if TYPE_CHECKING:
    from wavewright.engine.fake_model.server import FakeModelServer


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
            calls = tuple(FakeToolCall(call.name, json.dumps(call.arguments)) for call in self.calls)
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
    return (
        f"{exchange.number:4}  {request.wire:9} {request.model}: {asked}, {how}, {size} -> {rule}: {answer}"
    )
