"""Published tasks as plans: how many the checker accepts, and how many spoilt copies it refuses.

A *case* is a plan with the signatures of its tools. A *mutant* is a copy with one mistake that a
model makes: a name that is none, an argument too many, too few or of another type, a field or a step
that there is not. Every mutant of an accepted plan has to be refused.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from wavewright.planner import check
from wavewright.planner.diagnostics.diagnostic import Diagnostic, error_diagnostics
from wavewright.planner.language.plan import LIMITS_OF_OWN_PLANS, Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.let_and_stop import with_let, with_stop
from wavewright.planner.types import TOOL_NAME_PATTERN, Json


@dataclass(frozen=True, slots=True)
class Case:
    """One published task."""

    name: str
    plan: dict[str, Any]
    tools: Mapping[str, ToolSignature]

    @property
    def calls(self) -> int:
        """How many calls it makes."""
        return len(self.plan["steps"])


@dataclass(slots=True)
class Tally:
    """What came of the cases of one set."""

    name: str
    cases: int = 0
    calls: int = 0
    accepted: int = 0
    accepted_calls: int = 0
    mutants: int = 0
    refused_mutants: int = 0
    codes: Counter[str] = field(default_factory=Counter[str])
    """Codes of the faults of what was not accepted."""
    refusals: list[str] = field(default_factory=list[str])
    missed: list[str] = field(default_factory=list[str])
    """Mutants that were accepted."""

    def row(self) -> tuple[str, ...]:
        """Return the figures as a row of a table."""
        codes = ", ".join(f"{code} {count}" for code, count in self.codes.most_common(4))
        return (
            self.name,
            f"{self.cases:,}",
            f"{self.calls:,}",
            f"{self.accepted:,}",
            f"{self.accepted_calls:,}",
            f"{self.refused_mutants:,} of {self.mutants:,}",
            codes or "-",
        )


HEAD = (
    "set",
    "plans",
    "calls",
    "accepted",
    "calls in these",
    "mutants refused",
    "faults of others",
)


def tool_name(name: str) -> str:
    """Return a function's name as a tool may have it; nearly all can have theirs."""
    return name if re.fullmatch(TOOL_NAME_PATTERN, name) else re.sub(r"\W", "_", f"t_{name}")


def faults_of(plan: dict[str, Any], tools: Mapping[str, ToolSignature]) -> list[Diagnostic]:
    """Return the errors of a plan."""
    read = with_stop(with_let(Plan.model_validate(plan))[0])
    return error_diagnostics(check(read, None, tools, limits=LIMITS_OF_OWN_PLANS))


def tally(name: str, cases: Iterable[Case]) -> Tally:
    """Return what comes of checking cases and their mutants."""
    found = Tally(name)
    for case in cases:
        found.cases += 1
        found.calls += case.calls
        faults = faults_of(case.plan, case.tools)
        if faults:
            found.codes.update({fault.code for fault in faults})
            found.refusals.append(f"{case.name}: {faults[0].message}")
            continue
        found.accepted += 1
        found.accepted_calls += case.calls
        for mistake, mutant in mutants(case):
            found.mutants += 1
            if faults_of(mutant, case.tools):
                found.refused_mutants += 1
            else:
                found.missed.append(f"{case.name}: {mistake}")
    return found


def mutants(case: Case) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield copies of a plan with one mistake each, with its name."""
    for number, step in enumerate(case.plan["steps"]):
        schema = case.tools[step["tool"]].input_schema
        properties: Any = schema.get("properties", {})
        for mistake, change in _mistakes(step["params"], properties, schema.get("required", ())):
            mutant = copy.deepcopy(case.plan)
            mutant["steps"][number]["params"] = change
            yield f"{step['id']}: {mistake}", mutant
        mutant = copy.deepcopy(case.plan)
        mutant["steps"][number]["tool"] = step["tool"] + "_x"
        yield f"{step['id']}: unknown tool", mutant
    texts = [text for step in case.plan["steps"] for text in _references(step["params"])]
    for text in dict.fromkeys(texts):
        for mistake, wrong in (
            ("unknown step", text.replace("${steps.", "${steps.no_")),
            ("unknown field", _misspelt_field(text, case)),
        ):
            if wrong is not None and wrong != text:
                yield f"{text}: {mistake}", _replaced(case.plan, text, wrong)


def _mistakes(
    params: dict[str, Any], properties: Any, required: Any
) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "unknown argument", {**params, "no_such_argument": 1}
    for name in required:
        if name in params:
            yield f"without {name}", {key: value for key, value in params.items() if key != name}
    for name in params:
        wrong = _of_another_type(properties.get(name, {}))
        if wrong is not None:
            yield f"{name} is {wrong!r}", {**params, name: wrong}


def _of_another_type(schema: Any) -> Any:
    """Return a value that a schema surely does not take; None where it takes anything."""
    kind = schema.get("type")
    if kind in ("object", "array"):
        return 7
    return {"no": "scalar"} if isinstance(kind, str) else None


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, str) and value.startswith("${steps.") and value.count("${") == 1:
        yield value
    for part in parts_of(value):
        yield from _references(part)


def _misspelt_field(text: str, case: Case) -> str | None:
    """Return a reference with its first field misspelt; None where the output is open or whole."""
    step, _, path = text.removeprefix("${steps.").removesuffix("}").partition(".")
    called = next((one for one in case.plan["steps"] if one["id"] == step), None)
    if not path or called is None or "?" in path:
        return None
    known = case.tools[called["tool"]].output_schema.get("properties")
    return f"${{steps.{step}.no_{path}}}" if known else None


def _replaced(value: Any, old: str, new: str) -> Any:
    fields, items = fields_of(value), items_of(value)
    if fields is not None:
        return {key: _replaced(part, old, new) for key, part in fields.items()}
    if items is not None:
        return [_replaced(part, old, new) for part in items]
    return new if value == old else value


def fields_of(value: Json) -> dict[str, Any] | None:
    """Return a value of published data that is an object; None for any other."""
    return value if isinstance(value, dict) else None


def items_of(value: Json) -> list[Any] | None:
    """Return a value of published data that is a list; None for any other."""
    return value if isinstance(value, list) else None


def parts_of(value: Any) -> list[Any]:
    """Return the values in an object or a list; none for any other value."""
    fields = fields_of(value)
    return [*fields.values()] if fields is not None else items_of(value) or []


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table as Markdown has it."""
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])
