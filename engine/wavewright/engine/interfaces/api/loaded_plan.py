"""A plan in a program's hand: loaded from a file, made by a model, or built step by step."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TypeAlias, TypeGuard, cast

from wavewright.config import Document, ReadLimits, Settings, Source, WavewrightError, read_document
from wavewright.engine.interfaces.api.given_functions import with_function
from wavewright.engine.rehearsal.dry_run.forecast import DryRun, notebook_bundle
from wavewright.engine.rehearsal.dry_run.outlook import forecast_job
from wavewright.engine.rehearsal.planning_session import PlanReport, make_plan_for_request
from wavewright.engine.run.context import RunRequest
from wavewright.engine.run.jobs.documents import is_job, is_template
from wavewright.engine.run.jobs.goal_in_words import job_in_words
from wavewright.engine.run.jobs.inputs import InputOverrides, known_inputs
from wavewright.engine.run.jobs.plan_drafts import PlanDraft, PlanOrigin
from wavewright.engine.run.jobs.resolving import ResolvedJob, resolve_job
from wavewright.engine.run.ports import Asker
from wavewright.planner import Diagnostic, Json, JsonObject, PlanError, render_text
from wavewright.tools import Tool
from wavewright.tools.functions.results import written_as_json
from wavewright.tools.functions.tool import MODEL_HINT

ToolSource: TypeAlias = str | Callable[..., object] | Tool
"""A tool by its name, or a function."""


@dataclass(frozen=True, eq=False, repr=False)
class LoadedPlan:
    """A plan, or a job with its plan, that is read but not run; it is never changed, only replaced
    by another.

    The example goes on from that of `Wavewright`.

    >>> plan = ww.new_plan().step("four", double, {"number": 2}).returns("${steps.four}")
    >>> plan.check(), plan.dry_run().waves
    ((), (('four',),))
    """

    settings: Settings
    file: Path
    """Paths in the document are relative to it."""
    document: Document | None = None
    """What it is read from; None for a plan that a model made."""
    made: ResolvedJob | None = None
    """The job with the plan that a model made."""
    inputs: JsonObject = field(default_factory=dict[str, Json])
    """They replace inputs of the document."""
    can_ask: bool = False
    """Whether a person can approve in a run of it."""
    can_answer: bool = False
    """Whether a person can answer questions in a run of it."""

    @cached_property
    def job(self) -> ResolvedJob:
        """The goal and the plan as it is written.

        Raises:
            DocumentError, PlanError: the document, or one that it names, is faulty; each fault has
                its place.
        """
        if self.made is not None:
            goal = self.made.goal
            plan = None if self.made.draft is None else self.made.draft.plan
            known = known_inputs(goal.inputs, goal.inputs_schema, plan)
            inputs = InputOverrides(self.inputs).applied(goal.inputs, goal.inputs_schema, known)
            return replace(self.made, goal=goal.model_copy(update={"inputs": inputs}))
        assert self.document is not None
        return resolve_job(
            self.document,
            self.file,
            None,
            self.settings,
            inputs=InputOverrides(from_file=self.inputs),
        )

    @cached_property
    def forecast(self) -> DryRun:
        """The dry run of the plan, computed once."""
        _, found = forecast_job(
            self.job, self.settings, can_ask=self.can_ask, can_answer=self.can_answer
        )
        return found

    def check(self) -> tuple[Diagnostic, ...]:
        """Return the warnings of the plan.

        Raises:
            DocumentError, PlanError: it is not valid; each fault has its code, its place and its
                fix.
        """
        return self.forecast.warnings

    def dry_run(self) -> DryRun:
        """Return what a run would do: waves, calls, time and cost; `print` shows it as text.

        Raises:
            DocumentError, PlanError: the plan is not valid.
        """
        return self.forecast

    def with_inputs(self, inputs: Mapping[str, object]) -> LoadedPlan:
        """Return the same plan with other values of these inputs.

        Raises:
            ToolError: a value has no JSON form.
        """
        return replace(self, inputs={**self.inputs, **json_inputs(inputs)})

    def step(
        self,
        step_id: str,
        tool: ToolSource,
        params: Mapping[str, object] | None = None,
        **fields: object,
    ) -> LoadedPlan:
        """Return the plan with one more step.

        Values become JSON as the results of tools do.

        Args:
            step_id: Name of the step in expressions.
            tool: A tool by its name, or a function, which is the one that is called: whether or
                not `Wavewright` was given it, and whatever else has its name.
            params: Its arguments; strings may hold `${…}`.
            fields: Further fields of a step, such as `for_each`, `when` and `retry`.

        Raises:
            WavewrightError: this is a job and no plan of its own, the function has the name of a
                tool with options that is made of another function, or a value has no JSON form.
            TypeError: the parameters are no mapping of names to values, or the step is given
                another id.
        """
        if isinstance(tool, str):
            settings, name = self.settings, tool
        else:
            settings, name = with_function(self.settings, tool)
        given = named_values(params, f"the parameters of step {step_id!r}")
        item: JsonObject = {"id": step_id, "tool": name, "params": _json_params(given, step_id)}
        item |= _further_fields(fields, f"step {step_id!r}")
        return replace(self._with_item("steps", item), settings=settings)

    def gate(self, gate_id: str, **fields: object) -> LoadedPlan:
        """Return the plan with one more gate, such as `gate("positive", on="total", check="output >
        0")`.

        Raises:
            WavewrightError: this is a job and no plan of its own.
            TypeError: the gate is given another id.
        """
        item: JsonObject = {"id": gate_id, **_further_fields(fields, f"gate {gate_id!r}")}
        return self._with_item("gates", item)

    def returns(self, result: object) -> LoadedPlan:
        """Return the plan with another result, as `${…}` or a structure that holds such.

        Raises:
            WavewrightError: this is a job and no plan of its own.
        """
        return self._changed({**self._value(), "result": written_as_json(result, "the result")})

    def let(self, **names: object) -> LoadedPlan:
        """Return the plan with further names for its expressions, such as
        `let(fresh="${steps.all.filter(r, r.price > 0)}")`, which is read as `${fresh}`.

        Raises:
            WavewrightError: this is a job and no plan of its own, or a value has no JSON form.
        """
        value = self._value()
        before = value.get("let")
        known = before if isinstance(before, dict) else {}
        return self._changed({**value, "let": {**known, **_json_fields(names, "`let`")}})

    def stop(self, when: str, result: object) -> LoadedPlan:
        """Return the plan with a condition under which it ends early, and its result then.

        Raises:
            WavewrightError: this is a job and no plan of its own, or the result has no JSON form.
        """
        written = written_as_json(result, "the result of the stop")
        return self._changed({**self._value(), "stop": {"when": when, "result": written}})

    def _with_item(self, name: str, item: JsonObject) -> LoadedPlan:
        value = self._value()
        before = value.get(name)
        return self._changed({**value, name: [*(before if isinstance(before, list) else ()), item]})

    def _value(self) -> JsonObject:
        document = self.document
        if document is None or is_job(document) or is_template(document):
            name = self.file.name if document is None else document.source.name
            raise WavewrightError(
                "only a plan can be given further steps, gates or a result; this is a job or a planner's plan",
                "change its document, or build a plan with `new_plan`",
                place=name,
            )
        return dict(document.value) if isinstance(document.value, dict) else {}

    def _changed(self, value: JsonObject) -> LoadedPlan:
        assert self.document is not None
        return replace(self, document=plan_document(value, self.document.source.name))

    def __repr__(self) -> str:
        return f"<plan {self.file.name!r}>"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """Return the plan for a notebook: a drawing and a table, or what is wrong with it."""
        try:
            return notebook_bundle(self.forecast)
        except PlanError as error:
            return {
                "text/plain": "\n\n".join(
                    render_text(e.diagnostics, e.source) for e in (error, *error.others)
                )
            }


def plan_document(value: JsonObject, name: str) -> Document:
    """Return the document of a plan that a program builds, with integers of any size."""
    limits = ReadLimits(takes_large_integers=True)
    return read_document(json.dumps(value, indent=2), name, limits=limits)


def json_inputs(inputs: Mapping[str, object] | None) -> JsonObject:
    """Return the inputs that a program gives as JSON.

    Raises:
        ToolError: a value has no JSON form.
        TypeError: they are no mapping of names to values.
    """
    given = named_values(inputs, "inputs")
    return {name: written_as_json(value, f"the input {name!r}") for name, value in given.items()}


def json_plan(plan: Mapping[str, object]) -> JsonObject:
    """Return a plan that a program gives as JSON.

    Raises:
        ToolError: a value has no JSON form; it is named with its step.
    """
    return {name: _json_part(name, value) for name, value in plan.items()}


def _json_part(name: str, value: object) -> Json:
    """Return a field of a plan, whose inputs and parameters are written one by one."""
    if name == "inputs" and _is_named(value):
        return json_inputs(value)
    if name == "steps" and isinstance(value, list | tuple):
        return [_json_step(step) for step in cast("Sequence[object]", value)]
    return written_as_json(value, f"{name!r} of the plan")


def _json_step(step: object) -> Json:
    if not _is_named(step):
        return written_as_json(step, "a step of the plan")
    step_id = str(step.get("id"))
    params = step.get("params")
    others = {name: value for name, value in step.items() if name != "params"}
    written = _json_fields(others, f"step {step_id!r}")
    if _is_named(params):
        written["params"] = _json_params(params, step_id)
    elif params is not None:
        written["params"] = written_as_json(params, f"the parameters of step {step_id!r}")
    return written


def _json_params(params: Mapping[str, object], step_id: str) -> JsonObject:
    return {
        name: written_as_json(value, f"the parameter {name!r} of step {step_id!r}")
        for name, value in params.items()
    }


def _is_named(value: object) -> TypeGuard[Mapping[str, object]]:
    """Whether a value is a mapping whose keys are texts, so that its members can be named."""
    return isinstance(value, Mapping) and all(
        isinstance(name, str) for name in cast("Mapping[object, object]", value)
    )


def named_values(given: object, what: str) -> Mapping[str, object]:
    """Return what a program has given as a dict, where it is one: Python would take a list of texts
    of two letters for pairs.
    """
    if not given:
        return {}
    if not isinstance(given, Mapping):
        msg = f"{what} are a dict of names and values, and not {type(given).__name__!r}"
        raise TypeError(msg)
    return cast("Mapping[str, object]", given)


def listed_names(given: Iterable[str], what: str) -> tuple[str, ...]:
    """Return the names that a program has given as a list: Python would take a text for a list of
    its letters.
    """
    if isinstance(given, str):
        msg = f"{what} are a list of names, and not a text: write [{given!r}]"
        raise TypeError(msg)
    return tuple(given)


def _further_fields(fields: Mapping[str, object], owner: str) -> JsonObject:
    """Return the further fields of a step or a gate, which has its id already.

    Raises:
        TypeError: another id is among them.
    """
    if "id" in fields:
        msg = f"{owner} is given another id, {fields['id']!r}: leave `id` out"
        raise TypeError(msg)
    return _json_fields(fields, owner)


def _json_fields(fields: Mapping[str, object], owner: str) -> JsonObject:
    return {name: written_as_json(value, f"{name!r} of {owner}") for name, value in fields.items()}


async def make_loaded_plan(asked: LoadedPlan, goal: str | Path, asker: Asker | None) -> LoadedPlan:
    """Return the plan that the model makes for a goal in words, or for the job that is loaded.

    Raises:
        DocumentError, PlanError: the job is faulty, or no answer of the model was a valid plan.
        WavewrightError: no model is configured, or the model has a question or says that there is
            no plan.
    """
    settings = asked.settings
    job = asked.job if isinstance(goal, Path) else unplanned_job(settings, goal, asked.inputs)
    if settings.model is None and job.draft is None:
        raise _no_model()
    report = await make_plan_for_request(
        RunRequest(resolved_job=job), settings=settings, asker=asker
    )
    planned = report.planned
    if planned.plan is None:
        raise _no_plan(report)
    origin = PlanOrigin.with_plan_value(planned.plan, planned.document)
    draft = PlanDraft(planned.plan, origin, planned.rung or "given", is_saved=True)
    return replace(asked, document=None, made=replace(job, draft=draft), inputs={})


def unplanned_job(
    settings: Settings, goal: str, inputs: Mapping[str, object] | None, tools: Iterable[str] = ()
) -> ResolvedJob:
    """Return the job of a goal in words, for which a model is to make a plan.

    Raises:
        WavewrightError: no model is configured, or there is no tool or pack of a name.
    """
    if settings.model is None:
        raise _no_model()
    return job_in_words(goal, settings, InputOverrides(from_file=json_inputs(inputs)), tuple(tools))


def _no_model() -> WavewrightError:
    return WavewrightError(
        "a plan for a goal in words needs a model, and none is configured", MODEL_HINT
    )


def _no_plan(report: PlanReport) -> WavewrightError:
    """Return why there is no plan, as an error to raise."""
    planned = report.planned
    if planned.question is not None:
        return WavewrightError(
            f"the planner asks: {planned.question.question}",
            "give `Wavewright(ask=…)` a function that answers",
        )
    if planned.cannot_plan is not None:
        return WavewrightError(f"the planner says that there is no plan: {planned.cannot_plan}")
    if planned.attempts:
        last = planned.attempts[-1]
        return PlanError(last.diagnostics, last.source)
    if planned.diagnostics:
        return PlanError(planned.diagnostics, Source("the plan", ""))
    reasons = "; ".join(f"{record.rung}: {record.reason}" for record in planned.rungs)
    return WavewrightError(f"no model has made a plan: {reasons}")
