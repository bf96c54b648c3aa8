from .budgets.memory import (
    MemoryBudgetStore as MemoryBudgetStore,
)
from .events.codec import (
    from_json as from_json,
    to_json as to_json,
)
from .events.state import (
    RunState as RunState,
    fold as fold,
)
from .events.types import (
    ErrorKind as ErrorKind,
    Event as Event,
    GateRecord as GateRecord,
    ItemFinished as ItemFinished,
    Noted as Noted,
    PlanAccepted as PlanAccepted,
    RunFinished as RunFinished,
    RunStarted as RunStarted,
    StepError as StepError,
    StepFinished as StepFinished,
    StepStarted as StepStarted,
    StepStatus as StepStatus,
    WaveFinished as WaveFinished,
    WaveStarted as WaveStarted,
)
from .fleet.remote_calls import (
    RemoteCall as RemoteCall,
    ToolHost as ToolHost,
)
from .run.execution import (
    Execution as Execution,
    execute as execute,
)
from .run.kept_answers import (
    JournalReplayCache as JournalReplayCache,
)
from .sqlite.journal import (
    SqliteBudgetStore as SqliteBudgetStore,
    SqliteJournal as SqliteJournal,
)
from .sqlite.transaction import (
    JournalReader as JournalReader,
)
from .store.errors import (
    JournalDamaged as JournalDamaged,
    JournalError as JournalError,
    RunBusy as RunBusy,
    RunLost as RunLost,
    RunNotFound as RunNotFound,
)
from .store.journal import (
    Journal as Journal,
    MemoryJournal as MemoryJournal,
    new_run_id as new_run_id,
)
from .stores import (
    budget_store_of as budget_store_of,
)
