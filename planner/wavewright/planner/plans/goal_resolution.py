"""Merge a job with its goal template into a goal.

The job wins, field by field. Its `variables` and `benchmarks` become inputs under the names that
the template gives them. All inputs together must fit the template's schema; each violation is
reported at its place in the job.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from pydantic import ValidationError

from wavewright.config.documents import Document
from wavewright.config.sources import Source, path_of_keys, pointer_keys, pointer_token
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.diagnostics.diagnostic import (
    Diagnostic,
    PlanError,
    codes_by_kind,
    diagnostic_from_fault,
    locate_diagnostics,
    make_diagnostic,
    suggest_name,
)
from wavewright.planner.language.goals import (
    AvailableTool,
    Goal,
    GoalTemplate,
    GoalTerms,
    Job,
    Recipe,
)
from wavewright.planner.language.plan import Gate, step_tools
from wavewright.planner.language.signatures import ToolSignature, ToolSignatures
from wavewright.planner.plans.expressions import evaluate, render
from wavewright.planner.plans.uses import ExpressionText, holds_expression
from wavewright.planner.schemas.validation import (
    InvalidSchemaError,
    SchemaViolation,
    schema_definitions,
    validator_of,
)
from wavewright.planner.schemas.views import (
    entry_view,
    field_schema,
    field_schemas,
    scoped_schema,
)
from wavewright.planner.types import GATE_ID_SEPARATOR, Json, JsonObject, properties_of

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

_MERGED_FIELDS = frozenset({"limits", "targets", "rules"})
"""Fields of a template that an override changes member by member; any other it replaces whole."""

_MAX_GATE_ID_LENGTH = 63

_CODE_OF_KEYWORD = {"required": "E105", "additionalProperties": "E104", "type": "E106"}


def resolve_goal(
    job: Job,
    template: GoalTemplate,
    document: Document | None = None,
    *,
    inputs_follow: bool = False,
) -> Goal:
    """Return what a job asks for.

    Args:
        job: The request.
        template: The kind of work that it names.
        document: Where the job was read from, for the places of faults.
        inputs_follow: A plan is checked before there is a job: nothing is said of the inputs.

    Raises:
        PlanError: the job overrides what does not exist, or its inputs do not fit.
    """
    known = {*unknown_names(template)}
    template = _apply_overrides(job, template, document)
    inputs, places, faults = _inputs(job, template)
    faults += [
        replace(fault, pointer="/overrides" + fault.pointer)
        for fault in unknown_names(template)
        if fault not in known
    ]
    faults += [] if inputs_follow else _input_faults(inputs, places, template)
    if faults:
        raise _plan_error(faults, document)
    written = template.goal if job.goal is None else job.goal
    text = _goal_text(written, job, template, inputs, document, inputs_follow=inputs_follow)
    return Goal(
        **{name: getattr(template, name) for name in GoalTerms.model_fields},
        name=template.name,
        job=job.name or template.name,
        text=text,
        written=written if written != text else "",
        inputs=inputs,
        tools=template.available_tools,
        as_of=job.as_of,
    )


def goal_with_inputs(goal: Goal, text: str, inputs: JsonObject) -> Goal:
    """Return a goal with other inputs, and its text anew.

    Args:
        goal: A resolved goal.
        text: Its text before inputs were put into it.
        inputs: All of its inputs.

    Raises:
        PlanError: the inputs do not fit, or the text cannot be made of them.
    """
    faults: list[Diagnostic] = []
    if goal.inputs_schema:
        for misfit in validator_of(goal.inputs_schema).violations(inputs):
            name = misfit.pointer or misfit.name or "object"
            message = f"the input {name!r} {misfit.message}"
            faults.append(make_diagnostic("E107", "/inputs" + misfit.pointer, message))
    if faults:
        raise _plan_error(faults, None)
    try:
        rendered = _rendered(text, inputs, goal.as_of)
    except ExpressionError as error:
        fault = make_diagnostic("E303", "/goal", f"the goal's text: {error.message}", error.hint)
        raise _plan_error([fault], None) from error
    written = text if text != rendered else ""
    return goal.model_copy(update={"inputs": inputs, "text": rendered, "written": written})


def check_template(template: GoalTemplate, tools: ToolSignatures) -> list[Diagnostic]:
    """Return what is wrong with a goal template, with places in it: whatever it names has to exist."""
    return [
        *unknown_tools(template.available_tools, tools),
        *unknown_names(template, tools),
        *_template_params(template, tools),
        *_template_gates(template),
        *_template_targets(template),
        *_template_schemas(template),
    ]


def _apply_overrides(job: Job, template: GoalTemplate, document: Document | None) -> GoalTemplate:
    if not job.overrides:
        return template
    merged: JsonObject = template.model_dump(mode="json", by_alias=True, exclude_unset=True)
    for name, value in job.overrides.items():
        merged[name] = (
            _merge_overrides(merged.get(name), value) if name in _MERGED_FIELDS else value
        )
    try:
        return GoalTemplate.model_validate(merged, by_alias=True, by_name=False)
    except ValidationError as error:
        # Loaded where a job's overrides are faulty: most are not.
        from wavewright.config.model_faults import model_faults

        faults = [
            diagnostic_from_fault(fault) for fault in model_faults(error, merged, GoalTemplate)
        ]
        raise _plan_error(
            [replace(part, pointer="/overrides" + part.pointer) for part in faults], document
        ) from error


def _merge_overrides(old: Json, new: Json) -> Json:
    if isinstance(old, dict) and isinstance(new, dict):
        return old | {name: _merge_overrides(old.get(name), value) for name, value in new.items()}
    return new


def _inputs(
    job: Job, template: GoalTemplate
) -> tuple[JsonObject, dict[str, str], list[Diagnostic]]:
    """Return the inputs, where each stands in the job, and which of them stand there twice."""
    declared: JsonObject = properties_of(template.inputs_schema)
    inputs: JsonObject = {
        name: part["default"]
        for name, part in declared.items()
        if isinstance(part, dict) and "default" in part
    }
    inputs |= job.inputs
    places = {name: "/inputs" + pointer_token(name) for name in job.inputs}
    faults: list[Diagnostic] = []
    targets = (
        ("variables", template.targets.variables, job.variables),
        ("benchmarks", template.targets.benchmarks, job.benchmarks),
    )
    for field, name, given in targets:
        if given and name in job.inputs:
            faults.append(
                make_diagnostic(
                    "E107",
                    "/inputs" + pointer_token(name),
                    f"the input {name!r} is given twice: here and as {field!r}",
                    f"keep {field!r}, or leave it out",
                )
            )
        elif given or (name in declared and name not in inputs):
            inputs[name] = list(given)
            places[name] = f"/{field}"
    return inputs, places, faults


def _input_faults(
    inputs: JsonObject, places: Mapping[str, str], template: GoalTemplate
) -> list[Diagnostic]:
    if not template.inputs_schema:
        return []
    try:
        misfits = validator_of(template.inputs_schema).violations(inputs)
    except InvalidSchemaError as error:
        hint = "fix the schema in the goal template"
        return [
            make_diagnostic(
                "E107",
                "/goal_template",
                f"the inputs of {template.name!r} have no valid schema: {error}",
                hint,
            )
        ]
    return [_input_fault(misfit, inputs, places, template) for misfit in misfits]


def _input_fault(
    misfit: SchemaViolation,
    inputs: JsonObject,
    places: Mapping[str, str],
    template: GoalTemplate,
) -> Diagnostic:
    where = pointer_keys(misfit.pointer)
    code = _CODE_OF_KEYWORD.get(misfit.keyword, "E107")
    if not where and misfit.name is not None:
        name = misfit.name
        if code == "E105":
            given_as = {
                template.targets.variables: "variables",
                template.targets.benchmarks: "benchmarks",
            }
            how = (
                f"give it as {given_as[name]!r}"
                if name in given_as
                else f"add it to the job's 'inputs': {name}: …"
            )
            return make_diagnostic(
                code,
                "/inputs",
                f"the job lacks the input {name!r}, which {template.name!r} needs",
                how,
            )
        known = template.inputs_schema.get("properties")
        hint = suggest_name(name, list(known), what="inputs") if isinstance(known, dict) else None
        return make_diagnostic(
            code, places.get(name, ""), f"{template.name!r} takes no input {name!r}", hint
        )
    if not where:
        return make_diagnostic(
            code, "/inputs", f"the inputs of the job: the value {misfit.message}"
        )
    pointer = places.get(where[0], "/inputs" + pointer_token(where[0]))
    for key in where[1:]:
        pointer += pointer_token(key)
    return make_diagnostic(
        code,
        pointer,
        f"the input {path_of_keys(where, inputs)!r} {misfit.message}",
        f"see the inputs of {template.name!r}",
    )


def _goal_text(
    text: str,
    job: Job,
    template: GoalTemplate,
    inputs: JsonObject,
    document: Document | None,
    *,
    inputs_follow: bool,
) -> str:
    try:
        return _rendered(text, inputs, job.as_of)
    except ExpressionError as error:
        where = "/goal_template" if job.goal is None else "/goal"
        code = codes_by_kind().get(error.kind, "E303")
        if inputs_follow and code == "E302" and _reads_declared(text, template):
            # What it will be is the job's to say.
            return text
        raise _plan_error(
            [make_diagnostic(code, where, f"the goal's text: {error.message}", error.hint)],
            document,
        ) from error


def rendered_goal(text: str, inputs: JsonObject, now: dt.datetime | None = None) -> str:
    """Return the text of a goal for other inputs; empty if it reads one that they lack."""
    try:
        return _rendered(text, inputs, now)
    except ExpressionError:
        return ""


def _rendered(text: str, inputs: JsonObject, now: dt.datetime | None) -> str:
    """Return a goal's text with what its expressions over the inputs give."""
    variables: JsonObject = {"inputs": inputs}
    return str(render(text, lambda expression: evaluate(expression, variables, now or _EPOCH)))


def _reads_declared(text: str, template: GoalTemplate) -> bool:
    """Whether every input that a goal's text reads is one of those that the template declares."""
    names = properties_of(template.inputs_schema)
    goal_text = ExpressionText("/goal", text, "result")
    return all(read.root != "inputs" or read.name in names for read in goal_text.all_reads)


def _plan_error(faults: Sequence[Diagnostic], document: Document | None) -> PlanError:
    if document is None:
        return PlanError(faults, Source("<job>", ""))
    return PlanError(locate_diagnostics(faults, document), document.source)


def unknown_tools(allowed: Sequence[AvailableTool], tools: ToolSignatures) -> Iterator[Diagnostic]:
    """Yield the tools that a goal allows and that do not exist, with places in its template."""
    for number, tool in enumerate(allowed):
        if tool.name not in tools:
            yield make_diagnostic(
                "E201",
                f"/available_tools/{number}/name",
                f"the goal allows {tool.name!r}, and there is no such tool",
                suggest_name(tool.name, tools, what="tools"),
            )


def unknown_names(
    template: GoalTemplate, tools: Collection[str] | None = None
) -> Iterator[Diagnostic]:
    """Yield the names in a template of what it does not have: tools in rules, gates and steps of
    recipes that it does not allow, gates of recipes, and fields of the result. What is said of them
    would hold of nothing, in silence.

    Args:
        template: The template.
        tools: Names of the tools that there are, where they are known; no other one is suggested.
    """
    rules = template.rules
    allowed = {tool.name for tool in template.available_tools}
    known = allowed if tools is None else tools
    named = [
        *(("/rules/data_tools", name) for name in sorted(rules.data_tools)),
        *(("/rules/analysis_tools", name) for name in sorted(rules.analysis_tools)),
        *(("/rules/required_tools", name) for name in sorted(rules.required_tools)),
        *(("/rules/may_fail", name) for name in sorted(rules.may_fail)),
        *(("/rules/primary_params" + pointer_token(name), name) for name in rules.primary_params),
        *(
            (f"/rules/terminal/{number}/tool", rule.tool)
            for number, rule in enumerate(rules.terminal)
        ),
        *(
            (f"/gates/{number}/on_tool", gate.on_tool)
            for number, gate in enumerate(template.gates)
            if gate.on_tool
        ),
        *(
            (f"/recipes/{number}/add/{place}/tool", tool)
            for number, recipe in enumerate(template.recipes)
            for place, step in enumerate(recipe.add)
            # A step that runs a plan calls the tools of that plan.
            if step.plan is None
            for tool in step_tools(step)
        ),
    ]
    for pointer, name in named:
        if name not in allowed:
            is_there = tools is not None and name in tools
            nearest = suggest_name(name, known, what="tools")
            yield make_diagnostic(
                "E202",
                pointer,
                f"the goal template speaks of {name!r}, which it does not allow",
                "add it to `available_tools`" if is_there else nearest,
            )
    yield from _template_recipes(template)
    yield from _template_allow_literals(template)


def _template_params(template: GoalTemplate, tools: ToolSignatures) -> Iterator[Diagnostic]:
    """Yield the parameters of which a template speaks and which their tools do not take, and the
    values that it sets and that do not fit them.
    """
    named = [
        ("/rules/primary_params" + pointer_token(tool), tool, param)
        for tool, param in template.rules.primary_params.items()
    ]
    sets = [
        (f"/rules/terminal/{number}/params", rule.tool, rule.params)
        for number, rule in enumerate(template.rules.terminal)
    ]
    for number, recipe in enumerate(template.recipes):
        tool = _tool_of_recipe(recipe, template)
        sets.append((f"/recipes/{number}/set_params", tool, recipe.set_params))
    for place, tool, params in sets:
        named += [(place + pointer_token(param), tool, param) for param in params]
        if tool in tools:
            yield from _misfits(params, tools[tool], place)
    for pointer, tool, param in named:
        schema = tools[tool].input_schema if tool in tools else {}
        known = properties_of(schema)
        if param not in known and schema.get("additionalProperties") is False:
            yield make_diagnostic(
                "E203",
                pointer,
                f"the goal template speaks of the parameter {param!r}, which {tool!r} does not take",
                suggest_name(param, known, what="its parameters"),
            )


def _misfits(params: JsonObject, tool: ToolSignature, place: str) -> Iterator[Diagnostic]:
    """Yield the values that a template sets and that do not fit the parameters of their tool.

    What a value with an expression becomes only a run knows: it is checked with the plan.
    """
    declared = properties_of(tool.input_schema)
    for param, value in params.items():
        schema = declared.get(param)
        if not isinstance(schema, dict) or holds_expression(value):
            continue
        whole = schema_definitions(tool.input_schema) | schema
        try:
            misfits = [*validator_of(whole, checks_formats=True).violations(value)]
        except InvalidSchemaError:
            # The schema is reported where a plan calls the tool.
            continue
        for misfit in misfits:
            yield make_diagnostic(
                "E205",
                place + pointer_token(param) + misfit.pointer,
                f"the goal template sets {param!r} of {tool.name!r}, which {misfit.message}",
                misfit.hint,
            )


def _tool_of_recipe(recipe: Recipe, template: GoalTemplate) -> str:
    """Return the tool whose step a recipe calls again; an empty name where the plan decides it."""
    step_id = recipe.step
    for gate in _gates(template):
        if gate.id == recipe.gate:
            if gate.on_tool is not None:
                return gate.on_tool
            step_id = gate.on
    steps = () if template.own_plan is None else template.own_plan.steps
    return next((step.tool for step in steps if step.id == step_id), "")


def _template_targets(template: GoalTemplate) -> Iterator[Diagnostic]:
    names = list(properties_of(template.inputs_schema))
    for field, name in template.targets.set_by_engine.items():
        if name not in names:
            yield make_diagnostic(
                "E104",
                f"/targets/{field}",
                f"the engine would set the input {name!r}, which 'inputs_schema' does not declare",
                suggest_name(name, names, what="inputs") or "declare it under 'inputs_schema'",
            )


def _template_gates(template: GoalTemplate) -> Iterator[Diagnostic]:
    seen: set[str] = set()
    for number, gate in enumerate(template.gates):
        if GATE_ID_SEPARATOR in gate.id or len(gate.id) > _MAX_GATE_ID_LENGTH:
            yield make_diagnostic(
                "E123",
                f"/gates/{number}/id",
                f"a template's gate cannot be called {gate.id!r}",
                f"use at most {_MAX_GATE_ID_LENGTH} characters without {GATE_ID_SEPARATOR!r}, "
                "which joins its id and a step's",
            )
        if gate.id.lower() in seen:
            yield make_diagnostic(
                "E122",
                f"/gates/{number}/id",
                f"a second gate is called {gate.id!r}",
                "rename one of the two",
            )
        seen.add(gate.id.lower())
    # A job's own plan may have the gates and steps, so this is said of a template alone.
    yield from _template_may_drop(template)


def _template_recipes(template: GoalTemplate) -> Iterator[Diagnostic]:
    """Yield the gates and steps that recipes are for and that the template does not have: such a
    recipe would never be tried.
    """
    plan = template.own_plan
    gates = [gate.id for gate in _gates(template)]
    steps = [] if plan is None else [step.id for step in plan.steps]
    for number, recipe in enumerate(template.recipes):
        # As a recipe is looked for, so letters in another case are another name.
        if recipe.gate is not None and recipe.gate not in gates:
            yield make_diagnostic(
                "E407",
                f"/recipes/{number}/gate",
                f"a recipe is for the gate {recipe.gate!r}, which the template does not have",
                suggest_name(recipe.gate, gates, what="gates"),
            )
        # The steps of a sub-plan, such as `clean.fetch`, are not known here.
        if recipe.step is not None and steps and recipe.step.partition(".")[0] not in steps:
            yield make_diagnostic(
                "E301",
                f"/recipes/{number}/step",
                f"a recipe is for the step {recipe.step!r}, which the template's plan does not have",
                suggest_name(recipe.step, steps, what="steps"),
            )


def _gates(template: GoalTemplate) -> tuple[Gate, ...]:
    """Return the gates of a template with those of its own plan, for which recipes are as well."""
    plan = template.own_plan
    return template.gates if plan is None else (*template.gates, *plan.gates)


def _template_may_drop(template: GoalTemplate) -> Iterator[Diagnostic]:
    """Yield the names in `may_drop` that are neither a gate, a tool nor a step: they permit nothing.

    A gate that stands for several steps may be named with one of them, as a report names it.
    """
    plan = template.own_plan
    gates = [gate.id for gate in _gates(template)]
    steps = [] if plan is None else [step.id for step in plan.steps]
    known = {*gates, *steps, *(tool.name for tool in template.available_tools)}
    for name in sorted(template.may_drop):
        if not {name, name.partition(GATE_ID_SEPARATOR)[0], name.partition(".")[0]} & known:
            yield make_diagnostic(
                "E407",
                "/may_drop",
                f"'may_drop' names {name!r}, which is neither a gate nor a tool of the template",
                suggest_name(name, known, what="gates and tools"),
            )


def _template_allow_literals(template: GoalTemplate) -> Iterator[Diagnostic]:
    """Yield the names in `allow_literals` that are no fields of the result, as `output_schema` has
    it: they permit nothing.
    """
    for name in sorted(template.allow_literals - {"result"}):  # the name of all of it
        place = scoped_schema(template.output_schema or {})
        for part in name.split("."):
            owner = entry_view(place)
            field = field_schema(owner, part)
            if field is None:
                yield make_diagnostic(
                    "E303",
                    "/allow_literals",
                    f"'allow_literals' names {name!r}, which is no field of the 'output_schema'",
                    suggest_name(part, field_schemas(owner), what="fields"),
                )
                break
            place = field


def _template_schemas(template: GoalTemplate) -> Iterator[Diagnostic]:
    for field, schema in (
        ("inputs_schema", template.inputs_schema),
        ("output_schema", template.output_schema),
    ):
        try:
            validator_of(schema or {})
        except InvalidSchemaError as error:
            yield make_diagnostic(
                "E107",
                f"/{field}",
                f"this is no JSON Schema: {error}",
                "references must stay inside the schema",
            )
