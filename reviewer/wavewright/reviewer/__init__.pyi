from .atomic_files import (
    FileNotWrittenError as FileNotWrittenError,
)
from .atomic_files import (
    write_atomically as write_atomically,
)
from .gates.calibration import (
    Calibration as Calibration,
)
from .gates.calibration import (
    read_calibration as read_calibration,
)
from .gates.calibration import (
    rubric_hash as rubric_hash,
)
from .gates.judge import (
    GateJudge as GateJudge,
)
from .gates.judge import (
    ModelJudge as ModelJudge,
)
from .gates.judge_agreement import (
    JudgeCase as JudgeCase,
)
from .gates.judge_agreement import (
    JudgeMeasurement as JudgeMeasurement,
)
from .gates.judge_agreement import (
    measure_judge as measure_judge,
)
from .gates.judge_agreement import (
    read_cases as read_cases,
)
from .gates.verifier import (
    make_verifier as make_verifier,
)
from .package.builder import (
    PackageError as PackageError,
)
from .package.builder import (
    build_package as build_package,
)
from .package.builder import (
    package_bytes as package_bytes,
)
from .package.builder import (
    package_schema as package_schema,
)
from .package.builder import (
    read_package as read_package,
)
from .package.builder import (
    write_package as write_package,
)
from .package.summary import (
    render_summary as render_summary,
)
from .records import (
    Package as Package,
)
from .records import (
    ReviewResult as ReviewResult,
)
from .recovery.recipes import (
    RecoveryView as RecoveryView,
)
from .recovery.recipes import (
    propose_patch as propose_patch,
)
from .recovery.recipes import (
    view_for_recovery as view_for_recovery,
)
from .recovery.replanning import (
    ReplanResult as ReplanResult,
)
from .recovery.replanning import (
    replan as replan,
)
from .report import (
    render_report as render_report,
)
from .report import (
    write_report as write_report,
)
from .review.by_code import (
    review_by_code as review_by_code,
)
from .review.by_model import (
    review_by_model as review_by_model,
)
