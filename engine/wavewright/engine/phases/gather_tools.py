"""What may be called."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wavewright.engine.clean_tools import without_known_secrets
from wavewright.engine.context import Ports, RunContext
from wavewright.engine.pipeline import StepResult, go_on
from wavewright.engine.toolbox import gather_tools


@dataclass(frozen=True, slots=True)
class GatherTools:
    """Find the tools that the goal allows, in the project and in the packs."""

    ports: Ports
    name: str = "gather_tools"

    async def run(self, context: RunContext) -> StepResult[RunContext]:
        """Import what brings the tools; a tool that nobody brings is the checker's to report."""
        assert context.goal is not None
        services = self.ports.services.for_goal(context.goal)
        tools = gather_tools(context.goal, self.ports.settings, services)
        reached = self.ports.tools_through(tools)
        return go_on(replace(context, tools=without_known_secrets(reached, self.ports.settings)))
