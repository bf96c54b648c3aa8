"""What may be called."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wavewright.engine.clean_tools import tools_with_redacted_outputs
from wavewright.engine.context import Ports, RunContext
from wavewright.engine.pipeline import PhaseResult, proceed
from wavewright.engine.toolbox import tools_of_goal


@dataclass(frozen=True, slots=True)
class GatherTools:
    """Find the tools that the goal allows, in the project and in the packs."""

    ports: Ports
    name: str = "gather_tools"

    async def run(self, context: RunContext) -> PhaseResult[RunContext]:
        """Import what brings the tools; a tool that nobody brings is the checker's to report."""
        assert context.goal is not None
        services = self.ports.services.for_goal(context.goal)
        tools = tools_of_goal(context.goal, self.ports.settings, services)
        reached = self.ports.wrap_tools(tools)
        return proceed(replace(context, tools=tools_with_redacted_outputs(reached, self.ports.settings)))
