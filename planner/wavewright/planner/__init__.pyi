from .cel.errors import (
    ExpressionError as ExpressionError,
)
from .checks.checker import (
    check as check,
)
from .diagnostics.diagnostic import (
    Diagnostic as Diagnostic,
    PlanError as PlanError,
    catalogue as catalogue,
    suggest_name as suggest_name,
)
from .diagnostics.rendering import (
    render_json as render_json,
    render_text as render_text,
    sarif_log as sarif_log,
)
from .language.goals import (
    Goal as Goal,
    GoalTemplate as GoalTemplate,
    Job as Job,
)
from .language.hashing import (
    canonical_json as canonical_json,
    content_hash as content_hash,
    plan_hash as plan_hash,
    step_key as step_key,
)
from .language.plan import (
    Cap as Cap,
    DocumentModel as DocumentModel,
    Gate as Gate,
    Limits as Limits,
    Plan as Plan,
    PlanPatch as PlanPatch,
    Retry as Retry,
    Step as Step,
)
from .language.signatures import (
    ToolSignature as ToolSignature,
    ToolSignatures as ToolSignatures,
)
from .planning.non_plan_answers import (
    read_whole_calls as read_whole_calls,
)
from .planning.records import (
    UserQuestion as UserQuestion,
)
from .plans.diff import (
    PlanDiff as PlanDiff,
    diff_plans as diff_plans,
)
from .plans.expressions import (
    evaluate as evaluate,
    render as render,
)
from .plans.graph import (
    PlanGraph as PlanGraph,
)
from .plans.patches import (
    PatchCheck as PatchCheck,
    apply_patch as apply_patch,
    check_patch as check_patch,
)
from .ports.asking import (
    Asking as Asking,
)
from .ports.fallback_ladder import (
    FallbackFailure as FallbackFailure,
    shipped_ladders as shipped_ladders,
)
from .ports.model_port import (
    ModelAnswer as ModelAnswer,
)
from .ports.replay_cache import (
    NULL_REPLAY_CACHE as NULL_REPLAY_CACHE,
    ReplayCache as ReplayCache,
)
from .reading.json_extraction import (
    find_json as find_json,
)
from .reading.reader import (
    PlanText as PlanText,
    read_plan as read_plan,
    read_plan_file as read_plan_file,
)
from .schemas.validation import (
    InvalidSchemaError as InvalidSchemaError,
    validator_of as validator_of,
)
from .types import (
    ID_PATTERN as ID_PATTERN,
    Json as Json,
    JsonObject as JsonObject,
    JsonSchema as JsonSchema,
    RunId as RunId,
    StepId as StepId,
    StepKey as StepKey,
    as_list as as_list,
    as_object as as_object,
)
