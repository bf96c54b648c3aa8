from .checks.checker import (
    check as check,
)
from .checks.types import (
    incompatibility as incompatibility,
)
from .diagnostics.catalogue import (
    DiagnosticEntry as DiagnosticEntry,
)
from .diagnostics.catalogue import (
    catalogue as catalogue,
)
from .diagnostics.diagnostic import (
    Diagnostic as Diagnostic,
)
from .diagnostics.diagnostic import (
    PlanError as PlanError,
)
from .diagnostics.diagnostic import (
    locate_diagnostics as locate_diagnostics,
)
from .diagnostics.rendering import (
    render_json as render_json,
)
from .diagnostics.rendering import (
    render_sarif as render_sarif,
)
from .diagnostics.rendering import (
    render_text as render_text,
)
from .language.goals import (
    Goal as Goal,
)
from .language.goals import (
    GoalTemplate as GoalTemplate,
)
from .language.goals import (
    Job as Job,
)
from .language.goals import (
    Limits as Limits,
)
from .language.goals import (
    Recipe as Recipe,
)
from .language.goals import (
    Rules as Rules,
)
from .language.hashing import (
    canonical_json as canonical_json,
)
from .language.hashing import (
    content_hash as content_hash,
)
from .language.hashing import (
    plan_hash as plan_hash,
)
from .language.hashing import (
    step_key as step_key,
)
from .language.plan import (
    Cap as Cap,
)
from .language.plan import (
    Gate as Gate,
)
from .language.plan import (
    Plan as Plan,
)
from .language.plan import (
    PlanPatch as PlanPatch,
)
from .language.plan import (
    Retry as Retry,
)
from .language.plan import (
    Step as Step,
)
from .language.signatures import (
    Tools as Tools,
)
from .language.signatures import (
    ToolSignature as ToolSignature,
)
from .planning.outcome import (
    AnsweredQuestion as AnsweredQuestion,
)
from .planning.outcome import (
    PlanningAttempt as PlanningAttempt,
)
from .planning.outcome import (
    PlanningResult as PlanningResult,
)
from .planning.outcome import (
    UserQuestion as UserQuestion,
)
from .planning.planner import (
    make_plan as make_plan,
)
from .plans.binding import (
    bind_plan as bind_plan,
)
from .plans.binding import (
    mandatory_caps as mandatory_caps,
)
from .plans.binding import (
    mandatory_gates as mandatory_gates,
)
from .plans.binding import (
    template_gate_of as template_gate_of,
)
from .plans.diff import (
    PlanDiff as PlanDiff,
)
from .plans.diff import (
    diff_plans as diff_plans,
)
from .plans.estimates import (
    expected_seconds as expected_seconds,
)
from .plans.expressions import (
    ExpressionError as ExpressionError,
)
from .plans.expressions import (
    TypedEnvironment as TypedEnvironment,
)
from .plans.expressions import (
    compile_render as compile_render,
)
from .plans.expressions import (
    evaluate as evaluate,
)
from .plans.expressions import (
    reads as reads,
)
from .plans.expressions import (
    render as render,
)
from .plans.goal_resolution import (
    check_template as check_template,
)
from .plans.goal_resolution import (
    resolve_goal as resolve_goal,
)
from .plans.graph import (
    CriticalPath as CriticalPath,
)
from .plans.graph import (
    PlanGraph as PlanGraph,
)
from .plans.patches import (
    PatchCheck as PatchCheck,
)
from .plans.patches import (
    PatchRefused as PatchRefused,
)
from .plans.patches import (
    apply_patch as apply_patch,
)
from .plans.patches import (
    check_patch as check_patch,
)
from .plans.patches import (
    patch_fingerprint as patch_fingerprint,
)
from .ports.budgets import (
    Allowance as Allowance,
)
from .ports.budgets import (
    BudgetExceeded as BudgetExceeded,
)
from .ports.budgets import (
    BudgetScope as BudgetScope,
)
from .ports.budgets import (
    BudgetStore as BudgetStore,
)
from .ports.budgets import (
    CallHistory as CallHistory,
)
from .ports.budgets import (
    InspectableBudgetStore as InspectableBudgetStore,
)
from .ports.budgets import (
    RemainingBudget as RemainingBudget,
)
from .ports.budgets import (
    Reservation as Reservation,
)
from .ports.budgets import (
    Spend as Spend,
)
from .ports.fallback_ladder import (
    FallbackFailure as FallbackFailure,
)
from .ports.fallback_ladder import (
    FallbackResult as FallbackResult,
)
from .ports.fallback_ladder import (
    Ladder as Ladder,
)
from .ports.fallback_ladder import (
    Rung as Rung,
)
from .ports.fallback_ladder import (
    RungRecord as RungRecord,
)
from .ports.fallback_ladder import (
    RungTimeout as RungTimeout,
)
from .ports.fallback_ladder import (
    read_ladders as read_ladders,
)
from .ports.fallback_ladder import (
    run_ladder as run_ladder,
)
from .ports.fallback_ladder import (
    rung_timeout as rung_timeout,
)
from .ports.model_port import (
    LoopLimits as LoopLimits,
)
from .ports.model_port import (
    LoopTool as LoopTool,
)
from .ports.model_port import (
    LoopToolError as LoopToolError,
)
from .ports.model_port import (
    ModelAnswer as ModelAnswer,
)
from .ports.model_port import (
    ModelCall as ModelCall,
)
from .ports.model_port import (
    ModelChoice as ModelChoice,
)
from .ports.model_port import (
    ModelClient as ModelClient,
)
from .ports.model_port import (
    ModelError as ModelError,
)
from .ports.model_port import (
    ModelUse as ModelUse,
)
from .ports.model_port import (
    NamedCall as NamedCall,
)
from .ports.model_port import (
    Role as Role,
)
from .ports.model_port import (
    Turn as Turn,
)
from .reading.reader import (
    PlanText as PlanText,
)
from .reading.reader import (
    read_model as read_model,
)
from .reading.reader import (
    read_model_answer as read_model_answer,
)
from .reading.reader import (
    read_model_file as read_model_file,
)
from .reading.reader import (
    read_plan as read_plan,
)
from .reading.reader import (
    read_plan_file as read_plan_file,
)
from .schemas.validation import (
    InvalidSchemaError as InvalidSchemaError,
)
from .schemas.validation import (
    Validator as Validator,
)
from .schemas.validation import (
    validator_of as validator_of,
)
from .types import (
    GateId as GateId,
)
from .types import (
    Json as Json,
)
from .types import (
    JsonObject as JsonObject,
)
from .types import (
    JsonSchema as JsonSchema,
)
from .types import (
    PlanHash as PlanHash,
)
from .types import (
    RunId as RunId,
)
from .types import (
    StepId as StepId,
)
from .types import (
    StepKey as StepKey,
)
