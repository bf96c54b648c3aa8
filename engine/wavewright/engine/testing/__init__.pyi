from .claims import (
    Claim as Claim,
)
from .doubles import (
    Call as Call,
)
from .plan_runner import (
    PlanRunner as PlanRunner,
)
from .plans import (
    DryRunLoader as DryRunLoader,
)
from .plans import (
    PlanLoader as PlanLoader,
)
from .plans import (
    PlanView as PlanView,
)
from .redactions import (
    Redaction as Redaction,
)
from .run_view import (
    PackageView as PackageView,
)
from .run_view import (
    ReviewView as ReviewView,
)
from .run_view import (
    RunView as RunView,
)
