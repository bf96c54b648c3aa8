from .cel.embedded import (
    reads as reads,
)
from .cel.errors import (
    ExpressionError as ExpressionError,
)
from .checks.checker import (
    check as check,
)
from .checks.types import (
    incompatibility as incompatibility,
)
from .diagnostics.diagnostic import (
    Diagnostic as Diagnostic,
    DiagnosticEntry as DiagnosticEntry,
    PlanError as PlanError,
    catalogue as catalogue,
    locate_diagnostics as locate_diagnostics,
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
    Recipe as Recipe,
    Rules as Rules,
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
    Tools as Tools,
    ToolSignature as ToolSignature,
)
from .planning.non_plan_answers import (
    read_suggested_calls as read_suggested_calls,
    read_whole_calls as read_whole_calls,
)
from .planning.planner import (
    make_plan as make_plan,
)
from .planning.records import (
    AnsweredQuestion as AnsweredQuestion,
    PlanningAttempt as PlanningAttempt,
    PlanningRequest as PlanningRequest,
    PlanningResult as PlanningResult,
    UserQuestion as UserQuestion,
)
from .plans.binding import (
    bind_plan as bind_plan,
    mandatory_caps as mandatory_caps,
    mandatory_gates as mandatory_gates,
    template_gate_of as template_gate_of,
)
from .plans.diff import (
    PlanDiff as PlanDiff,
    diff_plans as diff_plans,
)
from .plans.estimates import (
    expected_seconds as expected_seconds,
)
from .plans.expressions import (
    TypedEnvironment as TypedEnvironment,
    compile_render as compile_render,
    evaluate as evaluate,
    render as render,
)
from .plans.goal_resolution import (
    check_template as check_template,
    resolve_goal as resolve_goal,
)
from .plans.graph import (
    CriticalPath as CriticalPath,
    PlanGraph as PlanGraph,
)
from .plans.patches import (
    PatchCheck as PatchCheck,
    PatchRefused as PatchRefused,
    apply_patch as apply_patch,
    check_patch as check_patch,
    patch_fingerprint as patch_fingerprint,
)
from .ports.asking import (
    Asking as Asking,
)
from .ports.budgets import (
    Allowance as Allowance,
    BudgetExceeded as BudgetExceeded,
    BudgetScope as BudgetScope,
    BudgetStore as BudgetStore,
    CallHistory as CallHistory,
    InspectableBudgetStore as InspectableBudgetStore,
    RemainingBudget as RemainingBudget,
    Reservation as Reservation,
    Spend as Spend,
)
from .ports.fallback_ladder import (
    FallbackFailure as FallbackFailure,
    FallbackResult as FallbackResult,
    Ladder as Ladder,
    Rung as Rung,
    RungRecord as RungRecord,
    RungTimeout as RungTimeout,
    read_ladders as read_ladders,
    run_ladder as run_ladder,
    rung_timeout as rung_timeout,
    shipped_ladders as shipped_ladders,
)
from .ports.model_port import (
    LoopLimits as LoopLimits,
    LoopTool as LoopTool,
    LoopToolError as LoopToolError,
    ModelAnswer as ModelAnswer,
    ModelCall as ModelCall,
    ModelChoice as ModelChoice,
    ModelClient as ModelClient,
    ModelError as ModelError,
    ModelUse as ModelUse,
    NamedCall as NamedCall,
    Role as Role,
    Turn as Turn,
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
    read_model as read_model,
    read_model_answer as read_model_answer,
    read_model_file as read_model_file,
    read_plan as read_plan,
    read_plan_file as read_plan_file,
    read_tools_file as read_tools_file,
)
from .schemas.validation import (
    InvalidSchemaError as InvalidSchemaError,
    Validator as Validator,
    validator_of as validator_of,
)
from .types import (
    ID_PATTERN as ID_PATTERN,
    GateId as GateId,
    Json as Json,
    JsonObject as JsonObject,
    JsonSchema as JsonSchema,
    PlanHash as PlanHash,
    RunId as RunId,
    StepId as StepId,
    StepKey as StepKey,
    as_list as as_list,
    as_object as as_object,
)
