from .doubles import (
    Call as Call,
)
from .plan_runner import (
    PlanRunner as PlanRunner,
)
from .project import (
    Claim as Claim,
    DryRunLoader as DryRunLoader,
    PlanLoader as PlanLoader,
    PlanView as PlanView,
)
from .redactions import (
    Redaction as Redaction,
)
from .run_view import (
    PackageView as PackageView,
    ReviewView as ReviewView,
    RunView as RunView,
)
