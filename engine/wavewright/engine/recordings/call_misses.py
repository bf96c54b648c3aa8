"""Say which recorded call is most like one that was never recorded, and where they differ.

A *miss* is a call that a replay wanted and that no recording has. It is told with the nearest recorded call of the
same tool, so that a changed parameter never has to be searched for.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wavewright.engine.recordings.recorded_calls import RecordedCall
from wavewright.planner.types import Json, JsonObject, StepId

_MAX_SCANNED = 200
"""Calls that are looked at, those of the same step first."""
_CANDIDATES = 4
"""Calls that are compared in full, after a quick look at all."""
_MAX_COMPARED_CHARS = 1_000
"""Characters of a call that are compared."""
_MAX_DIFFERENCES = 6
_WIDTH = 80


@dataclass(frozen=True, slots=True)
class CallMiss:
    """A call that was never recorded."""

    step: StepId
    tool: str
    params: JsonObject
    index: int | None = None
    nearest: str | None = None
    """Where the nearest recorded call was made: its step, and the item where there is one."""
    differences: tuple[str, ...] = ()
    """What of it differs, a sentence each."""
    not_live_reason: str = ""
    """Why it was not made for real, where that was wanted."""

    @property
    def place(self) -> str:
        """The step, and the item where there is one."""
        return self.step if self.index is None else f"{self.step}[{self.index}]"

    def step_message(self) -> str:
        """Return the miss in one line, for a reader who knows the step and its tool."""
        nearest = (
            "nothing of this tool was" if self.nearest is None else f"nearest is the call of {self.nearest}"
        )
        return "; ".join((f"this call was never recorded: {nearest}", *self.differences))

    def __str__(self) -> str:
        """Return the miss in a few lines."""
        lines = [f"{self.place} calls {self.tool!r} with {short_json(self.params)}, which was never recorded"]
        if self.nearest is None:
            lines.append(f"no call of {self.tool!r} was recorded")
        else:
            lines.append(f"nearest: the call of {self.nearest}; {'; '.join(self.differences)}")
        if self.not_live_reason:
            lines.append(self.not_live_reason)
        return "\n  ".join(lines)

    def to_json(self) -> JsonObject:
        """Return the miss for programs."""
        return {
            "step": self.step,
            "index": self.index,
            "tool": self.tool,
            "params": self.params,
            "nearest": self.nearest,
            "differences": [*self.differences],
            "because": self.not_live_reason,
        }


def describe_call_miss(
    step: StepId,
    index: int | None,
    wanted: RecordedCall,
    recorded: Sequence[RecordedCall],
    *,
    because: str = "",
    is_thorough: bool = True,
) -> CallMiss:
    """Return the miss of a call, with the recorded call of that tool that is most like it.

    Where many calls are missed, looking through all that was recorded for each would take longer than the run did:
    what is not `is_thorough` looks at the call of the same step and item alone.
    """
    of_tool = [call for call in recorded if call.tool == wanted.tool]
    of_tool.sort(key=lambda call: (call.step != wanted.step, call.index != wanted.index))
    nearest = _nearest(wanted, of_tool[: _MAX_SCANNED if is_thorough else 1])
    if nearest is None:
        return CallMiss(step, wanted.tool, wanted.params, index, not_live_reason=because)
    found = list(_all_differences(nearest, wanted))
    shown = found[:_MAX_DIFFERENCES]
    if len(found) > len(shown):
        shown.append(f"and {len(found) - len(shown)} differences more")
    return CallMiss(step, wanted.tool, wanted.params, index, nearest.place, tuple(shown), because)


def _nearest(wanted: RecordedCall, calls: Sequence[RecordedCall]) -> RecordedCall | None:
    if not calls:
        return None
    text = _text(wanted)
    matcher: difflib.SequenceMatcher[str] = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(text)
    rough: list[tuple[float, int]] = []
    for place, call in enumerate(calls):
        matcher.set_seq1(_text(call))
        # The same step and item go before an equally near call of another.
        bonus = 0.001 * (call.step == wanted.step) + 0.0005 * (call.index == wanted.index)
        rough.append((matcher.quick_ratio() + bonus, place))
    rough.sort(key=lambda one: (-one[0], one[1]))
    best, likeness = calls[rough[0][1]], -1.0
    for _, place in rough[:_CANDIDATES]:
        call = calls[place]
        matcher.set_seq1(_text(call))
        ratio = matcher.ratio() + 0.001 * (call.step == wanted.step)
        if ratio > likeness:
            best, likeness = call, ratio
    return best


def _text(call: RecordedCall) -> str:
    return json.dumps([call.params, call.config], sort_keys=True)[:_MAX_COMPARED_CHARS]


def _all_differences(recorded: RecordedCall, wanted: RecordedCall) -> Iterator[str]:
    if recorded.status == "cancelled":
        yield "the recorded run was cut off before it ended"
    yield from _differences(recorded.params, wanted.params, "")
    yield from _differences(recorded.config, wanted.config, "config")


def _differences(old: Json, new: Json, path: str) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys((*old, *new)):
            below = f"{path}.{name}" if path else name
            if name not in new:
                yield f"{below} was {short_json(old[name])} and is gone"
            elif name not in old:
                yield f"{below} is new: {short_json(new[name])}"
            else:
                yield from _differences(old[name], new[name], below)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _differences(before, after, f"{path}[{place}]")
    elif old != new or type(old) is not type(new):
        yield f"{path} was {short_json(old)} and is {short_json(new)}"


def short_json(value: Json) -> str:
    """Return a value at a length that a sentence can bear."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
