from wavewright.engine.interfaces.testing.doubles import (
    Call as Call,
)
from wavewright.engine.interfaces.testing.plan_runner import (
    PlanRunner as PlanRunner,
)
from wavewright.engine.interfaces.testing.project import (
    Claim as Claim,
    DryRunLoader as DryRunLoader,
    PlanLoader as PlanLoader,
    PlanView as PlanView,
)
from wavewright.engine.interfaces.testing.redactions import (
    Redaction as Redaction,
)
from wavewright.engine.interfaces.testing.run_view import (
    PackageView as PackageView,
    ReviewView as ReviewView,
    RunView as RunView,
)
