"""A model server on loopback that answers by rules: OpenAI's two APIs and Anthropic's, streams and faults included.

A *rule* has a condition on the request, in a form that is the same for all providers, and one or more answers. The
first rule that fits and has an answer left is used; a request that no rule fits gets an error that names the rules.
Every request is kept in the *ledger*, without its key.

    with FakeModelServer() as server:
        server.answer({"steps": []}, when=asked_for("plan"))
        server.answer(overloaded(), "now it works", when="Summarise")   # a queue: each once
        server.answer(lambda request: request.prompt.upper())
        environment = server.environment()

`wavewright fake-model --script FILE` serves the rules of a file; `script.py` defines its form.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from wavewright.engine.fake_model.replies import (
    Answer,
    AnswerLike,
    AnswerMaker,
    ApiError,
    Exchange,
    RequestLog,
    Rule,
    RuleTest,
    answer_of,
)
from wavewright.engine.fake_model.request import (
    FakeModelRequest,
    Wire,
)

if TYPE_CHECKING:
    from wavewright.engine.fake_model.http_server import ServerThread

API_KEY = "sk-scripted-0123456789abcdef"
"""The key that `environment()` gives; the server takes any."""


def asked_for(schema_name: str) -> RuleTest:
    """Match requests for a structured answer of this name."""
    return lambda request: request.schema_name == schema_name


def offering(tool: str) -> RuleTest:
    """Match requests that offer this tool."""
    return lambda request: tool in request.tool_names


class FakeModelServer:
    """The server: a context manager that serves on loopback, in a thread of its own, while its block runs."""

    def __init__(self, port: int = 0) -> None:
        self._rules: list[Rule] = []
        self._ledger = RequestLog()
        self._port = port
        self._thread: ServerThread | None = None
        self._url = ""
        self.broken: list[Exception] = []
        """Exceptions that callables of rules raised."""

    def __enter__(self) -> Self:
        # Bound before the server starts: its address is known, and early requests wait instead of being refused.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", self._port))
        except OSError:
            listener.close()
            raise
        listener.listen(1024)
        self._url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        from wavewright.engine.fake_model.http_server import ServerThread

        self._thread = ServerThread(listener, self.decide, self._track)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
        match wire:
            case "chat":
                return {
                    "WAVEWRIGHT_MODEL": f"openai-chat:{model}",
                    "WAVEWRIGHT_BASE_URL": self.openai_url,
                    "WAVEWRIGHT_API_KEY": API_KEY,
                }
            case "responses":
                return {
                    "WAVEWRIGHT_MODEL": f"openai:{model}",
                    "OPENAI_BASE_URL": self.openai_url,
                    "OPENAI_API_KEY": API_KEY,
                }
            case "messages":
                return {
                    "WAVEWRIGHT_MODEL": f"anthropic:{model}",
                    "ANTHROPIC_BASE_URL": self.url,
                    "ANTHROPIC_API_KEY": API_KEY,
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
            with_: What it answers: one answer for ever, or as often as `times`; several are a queue, each given once.
            when: What the request must be: a test, or a text that it must hold; anything where absent.
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
            if not self._ledger.changed.wait_for(lambda: len(self._ledger.exchanges) >= count, timeout):
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
        """Return the answer to a request and its number, and write both down."""
        with self._ledger.changed:
            rule = next((rule for rule in self._rules if rule.left != 0 and rule.test(request)), None)
            given = rule.take() if rule else _unmatched_error(request, [rule.name for rule in self._rules])
            answer = self._resolve_answer(given, request)
            number = len(self._ledger.exchanges) + 1
            name = rule.name if rule else ""
            self._ledger.exchanges.append(Exchange(number, request, name, answer, time.monotonic()))
            self._ledger.changed.notify_all()
        return answer, number

    def _resolve_answer(self, given: AnswerLike | AnswerMaker, request: FakeModelRequest) -> Answer:
        try:
            return answer_of(given(request) if callable(given) else given)
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
        wanted = when or ""
        return lambda request: wanted in request.text
    return when


def _unmatched_error(request: FakeModelRequest, rules: Sequence[str]) -> ApiError:
    asked = (
        f"schema {request.schema_name!r}, tools {list(request.tool_names)}, prompt {request.prompt[:80]!r}"
    )
    had = ", ".join(rules) or "there is none"
    return ApiError(500, f"no rule of the fake model fits this request ({asked}); rules: {had}", "no_rule")
