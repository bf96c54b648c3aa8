"""The checker's promise: a plan that it accepts does not fail for its references, its types or what
is absent.

What no type tells (a division by zero, a text that is no number, an overflow) may still fail; the
plans here do none of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from hypothesis import given, settings, strategies as st

from tests.crash.run_size import volume
from tests.executor.execution_harness import NOW, RUN
from tests.executor.run.typed_plans import Draft, drafts, values
from wavewright.executor.events.state import RunState
from wavewright.executor.run.execution import Execution, execute
from wavewright.planner.checks.checker import check
from wavewright.planner.diagnostics.diagnostic import Diagnostic
from wavewright.planner.types import Json
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.functions.tool import Tool, ToolCall

FORESEEABLE = {"params", "expression", "items", "output"}


_OUTPUTS = 3
"""Different answers of a tool, drawn before it runs: what is drawn must not hang on who is called
first.
"""


def run(draft: Draft, data: st.DataObject) -> RunState:
    """Run a plan over tools that answer with values of their schemas; optional calls may fail."""
    failing = {step.id for step in draft.plan.steps if step.optional and data.draw(st.booleans())}

    def tool(name: str) -> Tool:
        signature = draft.tools[name]
        outputs = [data.draw(values(signature.output_schema)) for _ in range(_OUTPUTS)]

        async def call(request: ToolCall) -> Json:
            if request.step in failing:
                msg = "not today"
                raise ToolError(msg)
            return outputs[(request.index or 0) % _OUTPUTS]

        return Tool(signature, call)

    tools: Mapping[str, Tool] = {name: tool(name) for name in draft.tools}
    return asyncio.run(execute(Execution(draft.plan, tools, run=RUN, now=NOW)))


@given(drafts(), st.data())
@settings(max_examples=volume(20, 80))
def test_a_plan_that_the_checker_accepts_runs(draft: Draft, data: st.DataObject) -> None:
    if any(found.severity == "error" for found in check(draft.plan, None, draft.tools)):
        return
    state = run(draft, data)
    errors = [
        (name, record.error) for name, record in state.steps.items() if record.error is not None
    ]

    assert [(name, error.message) for name, error in errors if error.kind in FORESEEABLE] == []


@given(drafts())
@settings(max_examples=40)
def test_what_the_checker_refuses_it_refuses_at_a_place_of_the_plan_with_a_way_out(
    draft: Draft,
) -> None:
    plan = draft.plan.model_dump(mode="json", by_alias=True)
    for found in check(draft.plan, None, draft.tools):
        node = looked_up(plan, found.pointer)

        assert found.hint or found.severity == "error"
        assert found.message
        assert is_inside(found, node)


def looked_up(node: Json, pointer: str) -> Json:
    for part in pointer.split("/")[1:]:
        if isinstance(node, list):
            node = node[int(part)]
        else:
            assert isinstance(node, dict)
            node = node[part]
    return node


def is_inside(found: Diagnostic, node: Json) -> bool:
    """Whether the part of a text that a diagnostic points to is one."""
    if found.within is None:
        return True
    return isinstance(node, str) and 0 <= found.within.start <= found.within.end <= len(node)
