"""Messages about zones: a request names a zone, statuses tell of zones, and `research_package`
holds what was found.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Iterator
from typing import Annotated, ClassVar, Final, get_args
from urllib.parse import urlsplit

from pydantic import Field

from wavewright.packs.lore.models import (
    FactionData,
    FailedZone,
    LoreData,
    NarrativeItemData,
    NPCData,
    PageReference,
    Probability,
    ResearchCheckpoint,
    SourceConflict,
    Tier,
    ValidationFeedback,
    ZoneData,
    slug,
)
from wavewright.planner import Json, JsonObject, as_list, as_object, canonical_json
from wavewright.tools import (
    CheckpointForm,
    JobProgress,
    LogForm,
    MessageContract,
    MessageName,
    MessageText,
    PackageForm,
    PackagePayload,
    Payload,
    RequestedGoal,
    RequestForm,
    RequestPayload,
    TargetDepth,
    TokenBudget,
)


class ZoneRequest(RequestPayload):
    """`job_request`, the short form: a goal about a zone, for the goal template of the settings."""

    message_type: ClassVar = "job_request"

    goal: MessageText
    """What is wanted, in words."""
    depth: TargetDepth
    """Waves of zones after the first."""
    budget_tokens: TokenBudget
    """Tokens that the job may spend on models."""
    zone_name: MessageName
    """First zone."""


class ResearchPackage(PackagePayload):
    """`research_package`: what was found out about one zone."""

    message_type: ClassVar = "research_package"

    zone_name: str
    zone_data: ZoneData
    npcs: list[NPCData] = []
    factions: list[FactionData] = []
    lore: list[LoreData] = []
    narrative_items: list[NarrativeItemData] = []
    sources: list[PageReference] = []
    confidence: dict[str, Probability] = {}
    """From 0 to 1, by category of findings."""
    conflicts: list[SourceConflict] = []
    quality_warnings: list[str] = []
    """What a reader should know before relying on the package."""


def _goal(request: JsonObject) -> RequestedGoal:
    named = ZoneRequest.model_validate(request)
    return RequestedGoal(
        goal=named.goal,
        target=named.zone_name,
        depth=named.depth,
        budget_tokens=named.budget_tokens,
    )


def _research(package: JsonObject, zone: str, request: JsonObject) -> JsonObject | None:
    """Return a `research_package` where the result is an object with `zone_data`.

    Sources, confidence, conflicts and warnings that the result leaves out are those of the run.
    """
    del request
    result = package["result"]
    if not isinstance(result, dict) or "zone_data" not in result:
        return None
    found: JsonObject = {
        "zone_name": zone,
        "sources": [*_sources(package)],
        "conflicts": [*_conflicts(package)],
        "quality_warnings": package["warnings"],
        **result,
        "confidence": _confidence(package["review"], result.get("confidence")),
    }
    warnings = found["quality_warnings"]
    if package["status"] != "achieved" and isinstance(warnings, list):
        # The message has no status of its own.
        found["quality_warnings"] = [_verdict(package), *warnings]
    return found


def _sources(package: JsonObject) -> Iterator[Json]:
    """Yield the run's sources that are pages of the web."""
    for one in map(as_object, as_list(package["sources"])):
        url = one.get("location")
        if isinstance(url, str) and url.startswith(("http://", "https://")):
            tier = one.get("tier")
            yield {
                "url": url,
                "domain": urlsplit(url).hostname or "",
                "tier": tier if tier in get_args(Tier) else "unlisted",
                "accessed_at": one.get("accessed") or package["now"],
            }


def _conflicts(package: JsonObject) -> Iterator[Json]:
    """Yield the run's conflicts whose values have a source each, the first two values of each."""
    for one in map(as_object, as_list(package["conflicts"])):
        claims = [value for value in as_list(one.get("values")) if isinstance(value, dict)]
        if len(claims) > 1:
            (claim_a, source_a), (claim_b, source_b) = map(_claim, claims[:2])
            yield {
                "data_point": one["subject"],
                "source_a": source_a,
                "source_b": source_b,
                "claim_a": claim_a,
                "claim_b": claim_b,
            }


def _claim(entry: JsonObject) -> tuple[str, str]:
    value = entry.get("value")
    claim = value if isinstance(value, str) else canonical_json(value).decode()
    return claim, ", ".join(map(str, as_list(entry.get("sources"))))


def _verdict(package: JsonObject) -> Json:
    review = package["review"]
    return review["summary"] if isinstance(review, dict) else f"the run ended {package['status']}"


def _confidence(review: Json, stated: Json) -> Json:
    """Return the capped confidences of the review, under those that the result states."""
    if stated is not None and not isinstance(stated, dict):
        return stated
    capped: JsonObject = {
        str(one["field"]): one["capped"]
        for one in as_list(as_object(review).get("confidences"))
        if isinstance(one, dict) and one["field"] != "overall"
    }
    return {**capped, **(stated or {})}


def _counts(research: JsonObject) -> JsonObject:
    """Return the fields of the line `package_sent`."""
    counts = {name: len(value) for name, value in research.items() if isinstance(value, list)}
    records = sum(counts.get(name, 0) for name in ("npcs", "factions", "lore", "narrative_items"))
    return {
        "target": research["zone_name"],
        "data_point_count": 1 + records,
        "total_sources": counts.get("sources", 0),
    }


class ZoneValidation(Payload):
    """`validation_result`: the validator's verdict, in the form that names the zone."""

    message_type: ClassVar = "validation_result"

    zone_name: str
    accepted: bool
    feedback: list[ValidationFeedback] = []
    iteration: Annotated[int, Field(ge=1)]
    """Number of the package within the job, from 1."""


def _validation_goal(research: JsonObject) -> RequestedGoal:
    zone = str(research["zone_name"])
    return RequestedGoal(
        goal=f"Validate the package about {zone}",
        target=zone,
        inputs={"package": research},
        template="validate_lore",
    )


def _validation(package: JsonObject, zone: str, request: JsonObject) -> JsonObject | None:
    verdict = package["result"]
    if not isinstance(verdict, dict) or "accepted" not in verdict:
        return None
    fields: JsonObject = {"accepted": verdict["accepted"], "feedback": verdict["feedback"]}
    return {**fields, "zone_name": zone, "iteration": request["iteration"]}


def _failed_validation(reason: str, zone: str, request: JsonObject) -> JsonObject:
    """Return the verdict on a package that could not be validated, or not stored."""
    fault: JsonObject = {
        "field": "package",
        "reason": f"the validation failed: {reason}",
        "suggestion": "send the package again",
    }
    return {
        "zone_name": zone,
        "accepted": False,
        "feedback": [fault],
        "iteration": request["iteration"],
    }


def _daemon(agent: str, target: str) -> JsonObject:
    """Return the defaults of a daemon whose packages go to another one."""
    return {
        "agent": agent,
        "exchange": "knowledge.topic",
        "dead_letter_exchange": "knowledge.dlx",
        "queues": {
            "intake": f"agent.{agent}",
            "packages": f"agent.{target}",
            "dead": "knowledge.dead",
        },
        "validation": {"target_agent": target},
    }


VALIDATOR_CONTRACT: Final = MessageContract(
    requests=(RequestForm(ResearchPackage, _validation_goal),),
    packages=(PackageForm(ZoneValidation, _validation, build_failure=_failed_validation),),
    takes_documents=False,
    fields={"target": "zone_name"},
    domain="world_lore",
    daemon=_daemon("world_lore_validator", "world_lore_researcher"),
)
"""The daemon that validates packages: each one that comes in starts a job, whose verdict goes out.
"""

_STEPS: Final = 10
"""Steps of the research of a zone."""


def _checkpoint_name(zone: str) -> str:
    """Return the name of a zone's checkpoint; of a name that the store does not take, a digest of
    it.
    """
    identity = slug(zone)
    is_plain = re.fullmatch(r"[a-z0-9_]{1,100}", identity) is not None
    return "zone." + (identity if is_plain else hashlib.sha256(identity.encode()).hexdigest())


def _checkpoint(progress: JobProgress, day: dt.date) -> JsonObject:
    """Return the parameters of `checkpoint_save`."""
    is_over = progress.target in {*progress.completed, *progress.failed}
    queue = [name for name in progress.waiting if name not in progress.chosen]
    failed = [
        FailedZone(zone_name=name, error=reason, iterations=progress.packages.get(name, 0))
        for name, reason in progress.failed.items()
    ]
    checkpoint = ResearchCheckpoint(
        zone_name=progress.target,
        current_step=_STEPS if is_over else min(_STEPS, len(progress.steps)),
        step_data={"finished": [*progress.steps]},
        progression_queue=queue,
        priority_queue=[*progress.chosen],
        completed_zones=[*progress.completed],
        failed_zones=failed,
        daily_tokens_used=progress.tokens_today,
        last_reset_date=day,
    )
    return {
        "name": _checkpoint_name(progress.target),
        "checkpoint": checkpoint.model_dump(mode="json"),
    }


CONTRACT: Final = MessageContract(
    requests=(RequestForm(ZoneRequest, _goal),),
    packages=(PackageForm(ResearchPackage, _research, _counts),),
    statuses={
        "TARGET_STARTED": "ZONE_STARTED",
        "TARGET_COMPLETED": "ZONE_COMPLETED",
        "TARGET_FAILED": "ZONE_FAILED",
    },
    fields={
        "target": "zone_name",
        "targets_completed": "zones_completed",
        "targets_total": "zones_total",
        "targets_failed": "zones_failed",
    },
    log_events={
        "checkpoint_loaded": LogForm("checkpoint_loaded", fields={"target": "zone"}),
        "run_started": "research_cycle_started",
        "run_finished": "research_cycle_finished",
        "run_tokens": "zone_tokens",
        "target_failed": LogForm("zone_failed", fields={"target": "zone"}),
        "search_executed": LogForm("search_executed", "debug", {"results": "result_count"}),
        "crawl_executed": LogForm("crawl_executed", "debug", {"characters": "content_length"}),
        "conflict_detected": LogForm("conflict_detected", "warning"),
    },
    domain="world_lore",
    daemon={
        **_daemon("world_lore_researcher", "world_lore_validator"),
        "goal_template": "zone_research",
    },
    checkpoint=CheckpointForm("lore-store", "checkpoint_save", _checkpoint),
    roles={"validator": VALIDATOR_CONTRACT},
)
