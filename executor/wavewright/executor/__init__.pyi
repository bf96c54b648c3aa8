from .budgets.stores import (
    MemoryBudgetStore as MemoryBudgetStore,
)
from .events.codec import (
    from_json as from_json,
)
from .events.codec import (
    to_json as to_json,
)
from .events.state import (
    RunState as RunState,
)
from .events.state import (
    WaveRecord as WaveRecord,
)
from .events.state import (
    blocking_gate as blocking_gate,
)
from .events.state import (
    fold as fold,
)
from .events.state import (
    reduce as reduce,
)
from .events.types import (
    ErrorKind as ErrorKind,
)
from .events.types import (
    Event as Event,
)
from .events.types import (
    GateRecord as GateRecord,
)
from .events.types import (
    ItemFinished as ItemFinished,
)
from .events.types import (
    Noted as Noted,
)
from .events.types import (
    PlanAccepted as PlanAccepted,
)
from .events.types import (
    RunFinished as RunFinished,
)
from .events.types import (
    RunStarted as RunStarted,
)
from .events.types import (
    StepError as StepError,
)
from .events.types import (
    StepFinished as StepFinished,
)
from .events.types import (
    StepStarted as StepStarted,
)
from .events.types import (
    StepStatus as StepStatus,
)
from .events.types import (
    WaveFinished as WaveFinished,
)
from .events.types import (
    WaveStarted as WaveStarted,
)
from .run.execution import (
    execute as execute,
)
from .run.execution import (
    no_gates as no_gates,
)
from .run.ports import (
    Clock as Clock,
)
from .run.ports import (
    GateView as GateView,
)
from .run.ports import (
    LoopClock as LoopClock,
)
from .run.ports import (
    Verify as Verify,
)
from .sqlite.budget_store import (
    SqliteBudgetStore as SqliteBudgetStore,
)
from .sqlite.journal import (
    SqliteJournal as SqliteJournal,
)
from .sqlite.reader import (
    JournalReader as JournalReader,
)
from .store.errors import (
    JournalDamaged as JournalDamaged,
)
from .store.errors import (
    JournalError as JournalError,
)
from .store.errors import (
    JournalNotOpened as JournalNotOpened,
)
from .store.errors import (
    JournalNotWritten as JournalNotWritten,
)
from .store.errors import (
    RunBusy as RunBusy,
)
from .store.errors import (
    RunLost as RunLost,
)
from .store.errors import (
    RunNotFound as RunNotFound,
)
from .store.journal import (
    Journal as Journal,
)
from .store.journal import (
    MemoryJournal as MemoryJournal,
)
from .store.journal import (
    RunRow as RunRow,
)
from .store.journal import (
    StoredOutput as StoredOutput,
)
from .store.journal import (
    new_run_id as new_run_id,
)
