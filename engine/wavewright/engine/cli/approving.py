"""Who answers where a plan or a patch needs approval."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio.to_thread

from wavewright.engine.context import ApprovalRequest, Approver

if TYPE_CHECKING:
    from wavewright.engine.cli.interrupting import InterruptHandler
    from wavewright.engine.cli.progress import Progress


@dataclass(frozen=True, slots=True)
class FixedApprover:
    """Answers every request alike, and says so."""

    answer: bool
    because: str
    progress: Progress

    async def approve(self, request: ApprovalRequest) -> bool:
        """Return the fixed answer."""
        word = "approved" if self.answer else "not approved"
        self.progress.print_line(f"{request.subject} {word} ({self.because}): {'; '.join(request.needs)}")
        return self.answer


@dataclass(frozen=True, slots=True)
class TerminalApprover:
    """Asks the person at the terminal."""

    progress: Progress
    interruption: InterruptHandler

    async def approve(self, request: ApprovalRequest) -> bool:
        """Show what is asked and return the answer."""
        with self.progress.paused(), self.interruption.first_signal_exits():
            return await anyio.to_thread.run_sync(_ask_approval, request, abandon_on_cancel=True)


@dataclass(frozen=True, slots=True)
class DeferringApprover:
    """Answers nothing: the run waits until somebody does."""

    progress: Progress

    async def approve(self, request: ApprovalRequest) -> bool | None:
        """Say what a person is asked, and that nobody has answered."""
        self.progress.print_line(f"{request.subject} waits for a person's word: {'; '.join(request.needs)}")
        return None


def approver_for(choice: str, progress: Progress, interruption: InterruptHandler) -> Approver:
    """Return who answers for `--approve`; where nobody can be asked, nothing is approved."""
    if choice == "wait":
        return DeferringApprover(progress)
    if choice != "ask":
        return FixedApprover(choice == "always", f"--approve {choice}", progress)
    if sys.stdin.isatty() and sys.stderr.isatty():
        return TerminalApprover(progress, interruption)
    return FixedApprover(
        answer=False, because="nobody can be asked here; --approve always says yes", progress=progress
    )


def _ask_approval(request: ApprovalRequest) -> bool:
    needs = "".join(f"  - {need}\n" for need in request.needs)
    sys.stderr.write(f"\n{request.text}\nApprove this {request.subject}?\n{needs}[y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
