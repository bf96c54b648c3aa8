from .interfaces.api.loaded_plan import (
    LoadedPlan as LoadedPlan,
)
from .interfaces.api.mapped_tool import (
    ItemsRefused as ItemsRefused,
)
from .interfaces.api.plan_run import (
    NoFrame as NoFrame,
    NoResult as NoResult,
    PlanRun as PlanRun,
    RunStream as RunStream,
)
from .interfaces.api.run_plan import (
    RunPlan as RunPlan,
)
from .interfaces.api.tool_host import (
    open_tool_host as open_tool_host,
)
from .interfaces.api.wavewright import (
    FunctionsMissing as FunctionsMissing,
    NotOpen as NotOpen,
    RunExists as RunExists,
    Wavewright as Wavewright,
)
from .run.pipeline.phase import (
    Outcome as Outcome,
    Phase as Phase,
    PhaseEvent as PhaseEvent,
    PhaseListener as PhaseListener,
    PhaseRecord as PhaseRecord,
    PhaseResult as PhaseResult,
    PhaseStarted as PhaseStarted,
    PipelineError as PipelineError,
    PipelineRun as PipelineRun,
    branch as branch,
    halt as halt,
    proceed as proceed,
)
from .run.pipeline.pipeline import (
    Pipeline as Pipeline,
    PipelineBuilder as PipelineBuilder,
    maybe as maybe,
    when as when,
)
from .run.pipeline.twin import (
    DoneEffects as DoneEffects,
    EffectNotAnswered as EffectNotAnswered,
    Effects as Effects,
    PhaseDifference as PhaseDifference,
    TwinReport as TwinReport,
    TwinRuns as TwinRuns,
    TwinSettings as TwinSettings,
    open_twin as open_twin,
)
from .run.ports import (
    Approval as Approval,
    ApprovalRequest as ApprovalRequest,
)
from .run.retry import (
    RetryRefused as RetryRefused,
)
from .service.cancelling import (
    CancelRefused as CancelRefused,
)
from .service.operations.logs import (
    StructuredLog as StructuredLog,
)
from .service.operations.metrics import (
    PhaseLog as PhaseLog,
    PhaseMetrics as PhaseMetrics,
    PhaseTrace as PhaseTrace,
    PipelineMonitor as PipelineMonitor,
    TwinLog as TwinLog,
    TwinMetrics as TwinMetrics,
)
