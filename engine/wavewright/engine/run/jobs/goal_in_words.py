"""Goals in words: jobs with such a goal, and goal templates and kept plans for a similar one.

The *plan library* holds plans of achieved runs, kept as goal templates and found again by their
goal. To *generalise* a plan is to put `${inputs…}` in the place of literals that equal inputs of
its run. A kept plan is an *exact* match for a goal whose text and inputs are those that it was
generalised from, but for the values of the inputs, and whose tools are unchanged; it is then run
without a planner. A *similar* one is shown to the planner.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from wavewright.config import (
    DocumentError,
    Settings,
    WavewrightError,
    exit_codes,
    read_document,
    read_document_file,
)
from wavewright.config.documents import read_bytes
from wavewright.engine.run.jobs.documents import JobErrors
from wavewright.engine.run.jobs.inputs import InputOverrides
from wavewright.engine.run.jobs.plan_drafts import PlanDraft, template_draft
from wavewright.engine.run.jobs.resolving import ResolvedJob, resolve_job
from wavewright.engine.run.jobs.saved_plan import signature_json
from wavewright.engine.run.project.templates import template_files
from wavewright.engine.run.project.tool_sources import full_name
from wavewright.engine.run.project.tools import all_tools, tools_of_goal
from wavewright.engine.run.project.used_packs import project_tools
from wavewright.planner import (
    Goal,
    GoalTemplate,
    Json,
    JsonObject,
    JsonSchema,
    Plan,
    PlanError,
    Step,
    ToolSignatures,
    as_list,
    as_object,
    canonical_json,
    content_hash,
    suggest_name,
    validator_of,
)
from wavewright.planner.checks.checker import errors_in
from wavewright.planner.language.goals import GoalTerms, KeptRun
from wavewright.planner.plans.binding import (
    bind_plan,
    escape_references,
    mandatory_caps,
    mandatory_gates,
    terminal_params,
)
from wavewright.planner.plans.goal_resolution import rendered_goal
from wavewright.planner.plans.graph import superseded_by
from wavewright.planner.reading.reader import read_model
from wavewright.planner.schemas.validation import infer_schema
from wavewright.planner.types import properties_of
from wavewright.tools import pack_names
from wavewright.tools.packs import pack_tool_names

if TYPE_CHECKING:
    from wavewright.planner.planning.records import PlanningResult

_MAX_TEMPLATES: Final = 3
_MAX_COMBINED: Final = 6
"""Optional inputs whose combinations are all checked."""
_WORD: Final = re.compile(r"\w{3,}")


def job_in_words(
    goal: str, settings: Settings, inputs: InputOverrides, tools: Sequence[str] = ()
) -> ResolvedJob:
    """Return a job without a plan: its goal in words, and the tools that it is planned with.

    Args:
        goal: The text of the goal.
        settings: The project's.
        inputs: Values that the plan may read.
        tools: Names of tools, and of packs for all of their tools; `project_tools` where there are
            none.

    Raises:
        WavewrightError: there is no tool and no pack of a name.
    """
    template: dict[str, Json] = {
        "version": 1,
        "name": "plan",
        "goal": goal,
        "available_tools": [{"name": name} for name in _tool_names(tools, settings)],
    }
    document = read_document(json.dumps(template), "the goal")
    return resolve_job(document, settings.root / "plan", None, settings, inputs=inputs)


def _tool_names(asked: Sequence[str], settings: Settings) -> list[str]:
    if not asked:
        return project_tools(settings)
    known = list(all_tools(settings))
    names = dict[str, None]()
    for name in asked:
        if name in known:
            names[name] = None
        elif name in pack_names():
            pack_settings = as_object(settings.packs.get(name))
            for tool in sorted(pack_tool_names(name, pack_settings, settings.root)):
                names[tool if tool in known else full_name(name, tool)] = None
        else:
            hint = suggest_name(name, [*known, *pack_names()], what="tools and packs")
            raise WavewrightError(
                f"there is no tool and no pack {name!r}", hint, exit_code=exit_codes.MISUSE
            )
    return [*names]


@dataclass(frozen=True, slots=True)
class FoundTemplate:
    """A goal template for a similar goal."""

    file: Path
    template: GoalTemplate


def find_templates(goal: str, settings: Settings, *, is_kept: bool = False) -> list[FoundTemplate]:
    """Return the goal templates of the project and of packs whose name or goal has words of a goal,
    best first.

    With `is_kept` only those that were kept from runs are looked at.
    """
    words = {word.casefold() for word in _WORD.findall(goal)}
    templates = list(_templates(settings, is_kept=is_kept))
    if not templates:
        return []
    with closing(sqlite3.connect(":memory:")) as index:
        index.execute(
            "CREATE VIRTUAL TABLE template USING fts5(name, goal, tokenize = 'porter unicode61')"
        )
        index.executemany(
            "INSERT INTO template (rowid, name, goal) VALUES (?, ?, ?)",
            [
                (number, template.template.name.replace("_", " "), template.template.goal)
                for number, template in enumerate(templates)
            ],
        )
        query = " OR ".join(f'"{word}"' for word in sorted(words))
        rows = index.execute(
            "SELECT rowid FROM template WHERE template MATCH ? ORDER BY rank, rowid LIMIT ?",
            (query or '""', _MAX_TEMPLATES),
        ).fetchall()
    return [templates[row[0]] for row in rows]


def _templates(settings: Settings, *, is_kept: bool) -> Iterator[FoundTemplate]:
    """Yield the goal templates that can be read."""
    for file in template_files(settings):
        try:
            # Each run that needs a plan looks for kept ones, and to parse every template takes far
            # longer.
            if is_kept and b"kept" not in read_bytes(file):
                continue
            template = read_model(read_document_file(file), GoalTemplate)
        except (DocumentError, PlanError):
            continue
        if not is_kept or (template.kept is not None and template.plan is not None):
            yield FoundTemplate(file, template)


_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MIN_TEXT: Final = 2
"""Minimum length of a text that is looked for in the text of a goal."""


def unbound_plan(plan: Plan, goal: Goal) -> Plan:
    """Return a run's plan without what its goal has added to it and without superseded steps."""
    replaced = superseded_by(plan)
    set_by_engine = terminal_params(goal)
    steps = list[Step]()
    for step in plan.steps:
        if step.id not in replaced:
            params = _without(step.params, set_by_engine.get(step.tool, {}))
            own = {"params": params, "supersedes": None, "only": None}
            steps.append(step.model_copy(update=own))
    added = mandatory_gates(plan, goal)
    gates = [gate for gate in plan.gates if gate not in added and gate.on not in replaced]
    added_caps = mandatory_caps(plan, goal)
    caps = [cap for cap in plan.caps if cap not in added_caps]
    return plan.model_copy(
        update={
            "goal": None,
            "previous": {} if goal.previous else plan.previous,
            "inputs": _without(plan.inputs, goal.inputs),
            "steps": tuple(steps),
            "gates": tuple(gates),
            "caps": tuple(caps),
        }
    )


def _without(values: JsonObject, names: Collection[str]) -> JsonObject:
    return {name: value for name, value in values.items() if name not in names}


def generalised(plan: Plan, inputs: JsonObject) -> Plan:
    """Return a plan whose parameters, items and names refer to the inputs that they equal, where only
    one does.
    """
    paths = list(_paths(inputs))
    steps = list[Step]()
    for step in plan.steps:
        params = {name: _generalised_value(value, paths) for name, value in step.params.items()}
        items = _generalised_value(step.for_each, paths)
        steps.append(step.model_copy(update={"params": params, "for_each": items}))
    let = {name: _generalised_value(value, paths) for name, value in plan.let.items()}
    return plan.model_copy(update={"steps": tuple(steps), "let": let})


def _paths(inputs: JsonObject) -> Iterator[tuple[str, Json]]:
    """Yield each value in the inputs with its path, outer ones first."""
    level: list[tuple[str, Json]] = [
        (f"inputs.{name}", value) for name, value in inputs.items() if _NAME.fullmatch(name)
    ]
    while level:
        yield from level
        level = [inner for path, value in level for inner in _members(path, value)]


def _members(path: str, value: Json) -> Iterator[tuple[str, Json]]:
    if isinstance(value, list):
        yield from ((f"{path}[{number}]", item) for number, item in enumerate(value))
    elif isinstance(value, dict):
        yield from (
            (f"{path}.{name}", member) for name, member in value.items() if _NAME.fullmatch(name)
        )


def _generalised_value(value: Json, paths: Sequence[tuple[str, Json]]) -> Json:
    # Values such as these are equal by chance.
    if value is None or isinstance(value, bool) or value in ("", [], {}):
        return value
    text = canonical_json(value)
    equal = [
        path
        for path, value_of_input in paths
        if canonical_json(escape_references(value_of_input)) == text
    ]
    # An input goes before a part of one; of two that are equal none is sure to be meant.
    if isinstance(value, int | float):
        # Nobody means by 5 the fifth of the numbers 1 to 6.
        equal = [path for path in equal if "[" not in path]
    whole_inputs = [path for path in equal if "[" not in path and path.count(".") == 1]
    candidates = whole_inputs or equal
    if len(candidates) == 1:
        return f"${{{candidates[0]}}}"
    if isinstance(value, list):
        return [_generalised_value(item, paths) for item in value]
    if isinstance(value, dict):
        return {name: _generalised_value(member, paths) for name, member in value.items()}
    return value


def _generalised_text(text: str, inputs: JsonObject) -> str:
    """Return the text of a goal with references in the place of the texts of inputs, longest first."""
    path_of: dict[str, str] = {}
    for path, value in _paths(inputs):
        if isinstance(value, str) and len(value) >= _MIN_TEXT:
            path_of.setdefault(value, path)
    escaped = str(escape_references(text))
    if not path_of:
        return escaped
    # The longest first: "New York City" is not "New York" with a word behind it.
    words = "|".join(re.escape(value) for value in sorted(path_of, key=len, reverse=True))
    return re.sub(rf"(?<!\w)(?:{words})(?!\w)", lambda match: f"${{{path_of[match[0]]}}}", escaped)


def tool_lock(plan: Plan, tools: ToolSignatures) -> dict[str, str]:
    """Return the hash of the signature of each tool that a plan calls."""
    names = sorted({step.tool for step in plan.steps if step.tool in tools})
    return {name: content_hash(signature_json(tools[name])) for name in names}


def kept_template(
    name: str, plan: Plan, goal: Goal, kept: KeptRun, *, is_given: bool
) -> GoalTemplate:
    """Return the goal template of a generalised plan, which a person gave or a planner made."""
    called = {step.tool for step in plan.steps}
    is_in_words = goal.name == "plan"
    # The inputs of a plan that is given have values in it, those of a goal in words do not.
    schema = goal.inputs_schema or _inputs_schema(plan, goal.inputs, are_needed=not is_given)
    tools = [tool for tool in goal.tools if tool.name in called or not is_in_words]
    terms = GoalTerms.model_fields.keys() - {"inputs_schema"}
    return GoalTemplate(
        name=name,
        goal=_generalised_text(goal.text, goal.inputs),
        inputs_schema=_with_defaults(schema, goal.inputs),
        available_tools=tuple(tools),
        plan=plan,
        kept=kept,
        **{term: getattr(goal, term) for term in terms},
    )


def _with_defaults(schema: JsonSchema, inputs: JsonObject) -> JsonSchema:
    """Return a schema of inputs in which those that may be absent have the values of the run as
    defaults: the kept plan may read any of them.
    """
    declared = properties_of(schema)
    if not declared:
        return schema
    with_defaults = dict(declared)
    for name in _optional_inputs(schema, inputs):
        declaration = declared[name]
        if isinstance(declaration, dict):
            with_defaults[name] = {
                **declaration,
                "default": declaration.get("default", inputs[name]),
            }
    return {**schema, "properties": with_defaults}


def _optional_inputs(schema: JsonSchema, inputs: JsonObject) -> list[str]:
    """Return the inputs of a run that may be absent by their schema."""
    needed = as_list(schema.get("required"))
    declared = properties_of(schema)
    return [name for name in declared if name in inputs and name not in needed]


def inputs_that_may_be_given(schema: JsonSchema, inputs: JsonObject) -> Iterator[JsonObject]:
    """Yield the inputs of a run, then those with each combination of optional ones absent and in
    the place of these their defaults; of many optional inputs each alone, and all of them.
    """
    declared, optional = properties_of(schema), _optional_inputs(schema, inputs)
    sizes = range(len(optional) + 1) if len(optional) <= _MAX_COMBINED else (0, 1, len(optional))
    for size in sizes:
        for absent in combinations(optional, size):
            present = {name: value for name, value in inputs.items() if name not in absent}
            for name in absent:
                declaration = as_object(declared[name])
                if "default" in declaration:
                    present[name] = declaration["default"]
            yield present


def _inputs_schema(plan: Plan, inputs: JsonObject, *, are_needed: bool) -> JsonSchema:
    """Return a schema of inputs of the same types; a list of which the plan reads single items
    keeps its length.
    """
    text = plan.model_dump_json()
    properties: JsonObject = {}
    for name, value in inputs.items():
        schema = infer_schema(value)
        if isinstance(value, list) and f"inputs.{name}[" in text:
            schema |= {"minItems": len(value), "maxItems": len(value)}
        properties[name] = schema
    needed: list[Json] = [*properties] if are_needed else []
    return {"type": "object", "properties": properties, "required": needed}


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """A kept plan that is valid for a goal."""

    name: str
    draft: PlanDraft
    is_exact: bool
    planning_tokens: int
    """What the planner took for it."""

    @property
    def plan(self) -> Plan:
        """The plan as it is kept."""
        return self.draft.plan

    def note(self, planned: PlanningResult | None) -> JsonObject:
        """Return what became of it in a run.

        `hit`: run without a planner; `suggested`: taken by that rung; `adapted`: the planner's plan
        has a step of it;
        `proposed`: the planner's plan has none.
        """
        if planned is None:
            use = "hit"
        elif planned.rung == "suggested" and planned.plan == self.plan:
            use = "suggested"
        else:
            steps = () if planned.plan is None else planned.plan.steps
            calls = [(step.tool, step.params, step.for_each) for step in steps]
            own = [(step.tool, step.params, step.for_each) for step in self.plan.steps]
            use = "adapted" if any(call in own for call in calls) else "proposed"
        saved = self.planning_tokens if use == "hit" else 0
        return {"template": self.name, "use": use, "tokens_saved": saved}


def find_kept_plan(goal: Goal, settings: Settings, tools: ToolSignatures) -> KeptPlan | None:
    """Return the best kept plan for a goal: an exact match, or else the most similar one; None if
    there is none.

    A kept plan that the checker refuses for this goal is passed over.
    """
    templates = find_templates(goal.text, settings, is_kept=True)
    candidates = [_kept_plan(template, goal, settings, tools) for template in templates]
    plans = [kept for kept in candidates if kept is not None]
    for plan in plans:
        if plan.is_exact:
            return plan
    # Templates come with the most similar first.
    return plans[0] if plans else None


def with_kept_plan(job: ResolvedJob, settings: Settings) -> ResolvedJob:
    """Return a job whose plan a planner would make with the one that was kept for its goal, if there
    is one: a run follows that without asking.
    """
    # A fallback is run where nobody can be asked.
    if job.draft is not None and (settings.model is None or not job.draft.is_fallback):
        return job
    # Before the tools of all packs are loaded.
    if not find_templates(job.goal.text, settings, is_kept=True):
        return job
    kept = find_kept_plan(job.goal, settings, tools_of_goal(job.goal, settings).signatures)
    if kept is None or not kept.is_exact:
        return job
    return replace(job, draft=replace(kept.draft, is_saved=True, kept_as=kept.name))


def _kept_plan(
    kept: FoundTemplate, goal: Goal, settings: Settings, tools: ToolSignatures
) -> KeptPlan | None:
    template = kept.template
    assert template.kept is not None
    # It is read as a job's template: a person may have given it names, a stop or sub-plans since.
    faults = JobErrors()
    draft = template_draft(template, read_document_file(kept.file), settings, faults)
    if draft is None or faults or errors_in(bind_plan(draft.plan, goal), goal, tools):
        return None
    is_exact = (
        template.kept.goal_template == goal.name
        and goal.inputs.keys()
        <= set(cast("JsonObject", template.inputs_schema.get("properties", {})))
        and validator_of(template.inputs_schema).accepts(goal.inputs)
        and _words(rendered_goal(template.goal, goal.inputs)) == _words(goal.text)
        and tool_lock(draft.plan, tools) == template.kept.tools
    )
    return KeptPlan(template.name, draft, is_exact, template.kept.planning_tokens)


def _words(text: str) -> list[str]:
    return text.casefold().split()
