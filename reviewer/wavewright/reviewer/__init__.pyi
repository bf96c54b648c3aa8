from .gates.judge import (
    Calibration as Calibration,
    ModelJudge as ModelJudge,
    read_calibration as read_calibration,
    rubric_hash as rubric_hash,
)
from .gates.judge_agreement import (
    JudgeCase as JudgeCase,
    JudgeMeasurement as JudgeMeasurement,
    measure_judge as measure_judge,
    read_cases as read_cases,
)
from .gates.verifier import (
    make_verifier as make_verifier,
)
from .package.builder import (
    FileNotWrittenError as FileNotWrittenError,
    PackageError as PackageError,
    build_package as build_package,
    package_bytes as package_bytes,
    package_schema as package_schema,
    read_package as read_package,
    write_package as write_package,
)
from .package.summary import (
    render_summary as render_summary,
)
from .records import (
    Package as Package,
    ReviewResult as ReviewResult,
)
from .recovery.boundary import (
    RecoveryView as RecoveryView,
    view_for_recovery as view_for_recovery,
)
from .recovery.recipes import (
    propose_patch as propose_patch,
)
from .recovery.replanning import (
    ReplanResult as ReplanResult,
    replan as replan,
)
from .report import (
    render_report as render_report,
    write_report as write_report,
)
from .review.by_code import (
    review_by_code as review_by_code,
)
from .review.by_model import (
    review_by_model as review_by_model,
)
from .review.results import (
    ReviewedRun as ReviewedRun,
)
