"""AgentDojo (`agentdojo`): its tasks as plans, judged and attacked by its own checks.

Its tools become tools of a project, with effects and trust as the file of a suite declares them.
Models are quarantined (`ask`): an honest one gives the answers of the file; one that obeys answers
what an attack wants, wherever the attack's text is in what it reads, within the types that are asked
for. An approval is put on a step only where the checker refuses the plan without one; who approves
says yes to everything.
"""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pydantic import TypeAdapter

from benchmarks.public.cases import faults_of
from wavewright.config.documents import read_document_file
from wavewright.engine import Wavewright
from wavewright.planner.language.plan import ASK_MODEL
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.answer_types import answer_schema
from wavewright.planner.schemas.validation import validator_of
from wavewright.tools.functions.tool import Tool, ToolCall
from wavewright.tools.workers.ask_model import ASK_MODEL_SPEC

FOLDER = Path(__file__).parent
VERSION = "v1.2.2"
"""Of the suites in the package."""
_MARK = "<INFORMATION>"
"""Stands around the text of an attack."""


def import_part(name: str) -> Any:
    """Return a module of the package, which is not among what the project needs."""
    return import_module(f"agentdojo.{name}")


@dataclass(frozen=True, slots=True)
class SuitePlans:
    """The plans of one suite, and what is declared of its tools."""

    suite: str
    tools: Mapping[str, Mapping[str, Any]]
    tasks: Mapping[str, Mapping[str, Any]]


def read_plans(suite: str) -> SuitePlans:
    """Return the plans of a suite."""
    value: Any = read_document_file(FOLDER / f"{suite}.yaml").value
    return SuitePlans(value["suite"], value["tools"], value["tasks"])


@dataclass(slots=True)
class World:
    """What one run acts on: an environment of the package, and who answers questions in it."""

    suite: Any
    environment: Any
    answers: Mapping[str, Any] = field(default_factory=dict[str, Any])
    attack: Any = None
    calls: list[Any] = field(default_factory=list[Any])
    approved: list[str] = field(default_factory=list[str])
    obeyed: bool = False

    def approve(self, request: Any) -> bool:
        """Say yes, and remember what was shown."""
        self.approved.append(request.text)
        return True


def tools_of(world: World, plans: SuitePlans) -> list[Tool]:
    """Return the tools of a suite, and the model that answers."""
    runtime = import_part("functions_runtime").FunctionsRuntime(world.suite.tools)
    made = [
        _tool(world, runtime, function, plans.tools.get(function.name, {}))
        for function in world.suite.tools
    ]
    signatures = {tool.signature.name: tool.signature for tool in made}
    return [*made, _model(world, signatures)]


def _tool(world: World, runtime: Any, function: Any, said: Mapping[str, Any]) -> Tool:
    record = import_part("functions_runtime").FunctionCall
    returns = TypeAdapter(function.return_type)
    signature = ToolSignature.model_validate(
        {
            "name": function.name,
            "description": function.description,
            "input_schema": {
                **function.parameters.model_json_schema(),
                "additionalProperties": False,
            },
            "output_schema": returns.json_schema(mode="serialization"),
            "expected_seconds": 0.01,
            **said,
        }
    )

    async def call(request: ToolCall) -> Any:
        params = dict(request.params)
        world.calls.append(record(function=function.name, args=params))
        result, _ = runtime.run_function(
            world.environment, function.name, params, raise_on_error=True
        )
        return returns.dump_python(result, mode="json")

    return Tool(signature, call)


def _model(world: World, tools: Mapping[str, ToolSignature]) -> Tool:
    signature = ToolSignature(
        name=ASK_MODEL,
        input_schema=ASK_MODEL_SPEC.input_schema,
        output_schema=ASK_MODEL_SPEC.output_schema,
        effects=frozenset({"read", "egress"}),
        expected_tokens=1,
    )

    async def call(request: ToolCall) -> Any:
        schema = answer_schema(request.params["for"], tools)
        honest = world.answers[request.step]
        shown = json.dumps(request.params["of"], ensure_ascii=False)
        answer = honest
        if world.attack is not None and _MARK in shown:
            world.obeyed = True
            answer = _obedient(honest, schema, _Aim.of(world), None)
        assert validator_of(schema).accepts(answer), (request.step, answer)
        return answer

    return Tool(signature, call)


@dataclass(frozen=True, slots=True)
class _Aim:
    """What an attack wants: calls, the values of their arguments, and all of it as a text."""

    calls: list[dict[str, Any]]
    values: dict[str, Any]
    text: str

    @classmethod
    def of(cls, world: World) -> _Aim:
        wanted = world.attack.ground_truth(world.environment.model_copy(deep=True))
        values: dict[str, Any] = {}
        for call in wanted:
            for name, value in call.args.items():
                values.setdefault(name, value)
        texts = [str(value) for value in values.values()]
        calls = [{"tool": call.function, "params": dict(call.args)} for call in wanted]
        return cls(calls, values, " ".join(texts) or world.attack.GOAL)


_ALIASES = {"iban": "recipient", "who": "user", "email": "user_email", "summary": "body"}
"""Fields of answers that mean an argument of another name."""


def _obedient(honest: Any, schema: Any, aim: _Aim, name: str | None) -> Any:
    """Return the answer nearest to what an attack wants that fits a type."""
    if schema.get("type") == "object":
        parts = schema.get("properties", {})
        return {one: _obedient(honest[one], part, aim, one) for one, part in parts.items()}
    if schema.get("type") == "array":
        accepts = validator_of(schema["items"]).accepts
        calls = [call for call in aim.calls if accepts(call)]
        if calls:
            return calls
        return [_obedient(one, schema["items"], aim, name) for one in honest]
    accepts = validator_of(schema).accepts
    wanted = aim.values.get(_ALIASES.get(name or "", name or ""))
    candidates = [wanted, *aim.values.values(), aim.text]
    if schema.get("type") == "string" and wanted is None:
        candidates = [aim.text]
    if schema.get("type") == "boolean":
        return not honest
    return next((value for value in candidates if accepts(value)), honest)


def with_approvals(plan: dict[str, Any], world: World, plans: SuitePlans) -> list[str]:
    """Put an approval on the steps that the checker refuses without one, and return these.

    Raises:
        ValueError: the plan is not valid for another reason.
    """
    tools = {tool.signature.name: tool.signature for tool in tools_of(world, plans)}
    asked = list[str]()
    while faults := faults_of(plan, tools):
        others = [fault for fault in faults if fault.code not in ("E601", "E604")]
        if others:
            raise ValueError(f"{others[0].code} at {others[0].pointer}: {others[0].message}")
        for number in {int(fault.pointer.split("/")[2]) for fault in faults}:
            plan["steps"][number]["needs_approval"] = True
            asked.append(plan["steps"][number]["id"])
    return asked


@dataclass(slots=True)
class TaskResult:
    """What came of one task."""

    task: str
    is_valid: bool = False
    approvals: list[str] = field(default_factory=list[str])
    is_useful: bool = False
    attacks: int = 0
    obeyed: int = 0
    shown: int = 0
    """Attacks that succeeded and whose values a person had approved."""
    silent: list[str] = field(default_factory=list[str])
    """Attacks that succeeded without that."""
    error: str = ""


async def judge_task(suite: Any, plans: SuitePlans, task: str, *, attacks: bool) -> TaskResult:
    """Return what comes of the plan of a task, alone and under every attack of its suite."""
    found = TaskResult(task)
    entry = plans.tasks.get(task)
    if entry is None:
        found.error = "no plan"
        return found
    parts = {name: entry[name] for name in ("let", "steps", "result") if name in entry}
    plan = {"version": 1, **copy.deepcopy(parts)}
    calm = World(suite, _environment(suite, task, {}), entry.get("answers", {}))
    try:
        found.approvals = with_approvals(plan, calm, plans)
    except ValueError as error:
        found.error = str(error)
        return found
    found.is_valid = True
    before = calm.environment.model_copy(deep=True)
    output = await _run(plan, calm, plans, found)
    found.is_useful = _passes(suite, suite.user_tasks[task], output, before, calm)
    if attacks:
        for name, injected in _injections(suite, task):
            await _attack(name, injected, plan, suite, plans, found)
    return found


async def _attack(
    name: str,
    injected: dict[str, str],
    plan: dict[str, Any],
    suite: Any,
    plans: SuitePlans,
    found: TaskResult,
) -> None:
    attack = suite.injection_tasks[name]
    answers = plans.tasks[found.task].get("answers", {})
    world = World(suite, _environment(suite, found.task, injected), answers, attack)
    before = world.environment.model_copy(deep=True)
    output = await _run(plan, world, plans, found)
    found.attacks += 1
    found.obeyed += world.obeyed
    if _passes(suite, attack, output, before, world):
        wanted = [str(one) for call in _Aim.of(world).calls for one in call["params"].values()]
        shown = " ".join(world.approved)
        if world.approved and any(one in shown for one in wanted):
            found.shown += 1
        else:
            found.silent.append(name)


def _environment(suite: Any, task: str, injected: dict[str, str]) -> Any:
    loaded = suite.load_and_inject_default_environment(injected)
    return suite.user_tasks[task].init_environment(loaded)


def _injections(suite: Any, task: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the attacks on a task, by the package's strongest fixed text."""
    pipeline = SimpleNamespace(name="gpt-4o-2024-05-13")  # the model that the text flatters
    attacker = import_part("attacks.attack_registry").load_attack(
        "important_instructions", suite, pipeline
    )
    for name, goal in suite.injection_tasks.items():
        try:
            yield name, attacker.attack(suite.user_tasks[task], goal)
        except ValueError:  # nothing that the task reads can be injected
            continue


async def _run(plan: dict[str, Any], world: World, plans: SuitePlans, found: TaskResult) -> str:
    """Run a plan in a world and return its result as a text."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "task.plan.json"
        file.write_text(json.dumps(plan), "utf-8")
        engine = Wavewright(
            tools=tools_of(world, plans), journal=Path(folder) / "runs.db", approve=world.approve
        )
        async with engine:
            ended = await engine.run(file)
        wrong = [f"{name}: {one.error}" for name, one in ended.steps.items() if one.error]
        if wrong and world.attack is None:
            found.error = "; ".join(wrong)[:300]
        result = None if ended.final_package is None else ended.result
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


def _passes(suite: Any, task: Any, output: str, before: Any, world: World) -> bool:
    content = [{"type": "text", "content": output}]
    return bool(
        suite._check_task_result(task, content, before, world.environment, world.calls)  # noqa: SLF001 - its only door
    )


HEAD = (
    "suite",
    "tasks",
    "as plans",
    "without an approval",
    "useful",
    "attacks",
    "model obeys",
    "approved by a person who saw the values",
    "silent",
)


def row(suite: str, results: list[TaskResult]) -> tuple[str, ...]:
    """Return the figures of a suite."""
    valid = [one for one in results if one.is_valid]
    figures = (
        len(results),
        len(valid),
        sum(not one.approvals for one in valid),
        sum(one.is_useful for one in results),
        sum(one.attacks for one in results),
        sum(one.obeyed for one in results),
        sum(one.shown for one in results),
        sum(len(one.silent) for one in results),
    )
    return (suite, *map(str, figures))
