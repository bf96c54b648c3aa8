"""In which forms a model is asked for an answer, and which of them its endpoint refuses.

A *form* is a schema and a way to send it: in the dialect of the provider, as it is, by a tool, in
words. A question is put in the best form first; where the endpoint refuses that, in the next. What
was refused lives with the endpoint, so a loop of questions meets the refusal once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from wavewright.planner import Json, JsonSchema
from wavewright.tools.models.cassette.requests import FormParameters, request_hash
from wavewright.tools.models.dialects import SchemaTooLarge, dialect_of, own_schema
from wavewright.tools.models.endpoints import Endpoint
from wavewright.tools.models.known_servers import (
    KEPT_AFTER_FAULT_SECONDS,
    KEPT_SECONDS,
    ServerKnowledge,
)
from wavewright.tools.models.messages import (
    OUTPUT_MODES,
    OutputMode,
    choose_output_mode,
    is_object,
    structured_parameters,
)

if TYPE_CHECKING:
    from pydantic_ai.models import Model, ModelRequestParameters

    from wavewright.planner.ports.model_port import ModelCall
    from wavewright.tools.models.errors import ModelFault
    from wavewright.tools.network import ProviderLimiter

_logger = logging.getLogger(__name__)
_Way: TypeAlias = tuple[str, bool]
"""The mode of an answer, and whether its schema is in the provider's dialect."""
_MANY_REFUSED = 2
"""Schemas that are refused in one way, and none taken, after which the way itself is refused."""


@dataclass(frozen=True, slots=True)
class Form:
    """A schema, and a way to send it."""

    parameters: FormParameters
    is_in_dialect: bool = False
    """Whether the schema is written in the provider's dialect."""
    goal_schema: JsonSchema | None = None
    """What the budget is asked for beside the question, where the form is in a dialect."""

    @property
    def way(self) -> _Way:
        """How the schema is sent."""
        return self.parameters.output_mode, self.is_in_dialect

    @property
    def schema_hash(self) -> str:
        """Identifies the schema as it is sent."""
        shape = self.parameters.output_object
        tools = [tool.parameters_json_schema for tool in self.parameters.output_tools]
        sent = tools if shape is None else [shape.json_schema]
        return request_hash({"sent": cast("list[Json]", sent)})

    def sent_call(self, call: ModelCall) -> ModelCall:
        """Return a question as it is sent in this form."""
        return replace(call, goal_schema=self.goal_schema)


@dataclass(slots=True)
class RefusedForms:
    """The forms that an endpoint refused, while it answered the same question in another one.

    A schema is not sent again in a way in which it was refused. A way in which several schemas were
    refused and none was taken is not used any more: a plan that is made step by step has a schema of
    its own in each question. It holds as long as what a probe finds: an hour where the server
    failed, which may have been for a moment.
    """

    clock: Callable[[], float] = time.monotonic
    _until: dict[_Way, dict[str, float]] = field(default_factory=dict[_Way, dict[str, float]])
    """Way → hash of a schema → until when it counts as refused."""
    _taken: set[_Way] = field(default_factory=set[_Way])
    """Ways in which an answer came."""

    def has(self, form: Form) -> bool:
        """Tell whether a form need not be tried."""
        now = self.clock()
        refused = {schema for schema, end in self._until.get(form.way, {}).items() if now < end}
        is_given_up = len(refused) >= _MANY_REFUSED and form.way not in self._taken
        return is_given_up or form.schema_hash in refused

    def add(self, form: Form, fault: ModelFault) -> None:
        """Note a form that was refused."""
        seconds = KEPT_AFTER_FAULT_SECONDS if fault.is_of_provider else KEPT_SECONDS
        self._until.setdefault(form.way, {})[form.schema_hash] = self.clock() + seconds

    def note_taken(self, form: Form) -> None:
        """Note a form in which an answer came."""
        self._taken.add(form.way)


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that can be asked."""

    name: str
    endpoint: Endpoint
    model: Model
    limiter: ProviderLimiter
    server: ServerKnowledge | None = None
    """What is known of a server of OpenAI's chat API that is not OpenAI's."""
    refused: RefusedForms = field(default_factory=RefusedForms)

    async def forms_of(
        self, call: ModelCall, schema: JsonSchema, *, is_replaying: bool
    ) -> list[Form]:
        """Return the forms in which a question may be put, the best first.

        What is recorded is found by the form itself, so a replay needs no dialect.
        """
        name, goal_schema = call.schema_name, call.goal_schema
        modes = await self._output_modes(schema, is_replaying=is_replaying)
        forms = [Form(structured_parameters(schema, name, mode)) for mode in modes]
        dialect = dialect_of(self.endpoint, modes[0])
        if dialect is None or is_replaying:
            return forms
        written = own_schema(schema, dialect) if goal_schema is None else dialect(goal_schema)
        if written is None:
            return forms
        if isinstance(written, SchemaTooLarge):
            whose = "the form's" if goal_schema is None else "the goal's"
            _logger.info("%s is asked without %s types: %s", self.name, whose, written)
            return forms
        mode = modes[0]
        if not self.endpoint.is_compatible:
            # Written out, it may be one that the provider holds its model to.
            mode = choose_output_mode(self.endpoint, self.model, written)
        typed = structured_parameters(written, name, mode, asked_schema=schema)
        return [Form(typed, is_in_dialect=True, goal_schema=goal_schema or written), *forms]

    def forms_of_loop(self, parameters: ModelRequestParameters) -> list[Form]:
        """Return the forms in which a question of a loop of tools may be put: the tool for its end in
        the provider's dialect, then as it is.
        """
        members: dict[str, Any] = {
            member.name: getattr(parameters, member.name) for member in fields(parameters)
        }
        plain = Form(FormParameters(**members))
        dialect = dialect_of(self.endpoint, "tool")
        if dialect is None or not parameters.output_tools:
            return [plain]
        [answer] = parameters.output_tools
        schema = cast("JsonSchema", answer.parameters_json_schema)
        written = own_schema(schema, dialect)
        if written is None or isinstance(written, SchemaTooLarge):
            return [plain]
        members["output_tools"] = structured_parameters(written, answer.name, "tool").output_tools
        typed = FormParameters(**members, asked_schema=schema)
        return [Form(typed, is_in_dialect=True), plain]

    async def _output_modes(self, schema: JsonSchema, *, is_replaying: bool) -> list[OutputMode]:
        """Return the ways to ask for a form: the best first, then those that stand in for it where
        the server refuses the form, or a recording has the question in another way.
        """
        declared = choose_output_mode(self.endpoint, self.model, schema)
        if is_replaying:
            return [declared, *(mode for mode in OUTPUT_MODES if mode != declared)]
        if self.server is None or not is_object(schema):
            # What a provider refuses of a schema is asked for in words.
            return list(dict.fromkeys((declared, OUTPUT_MODES[-1])))
        best = await self.server.mode()
        return [*OUTPUT_MODES[OUTPUT_MODES.index(best) :]]
