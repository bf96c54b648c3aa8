from .agent import (
    agent_tool as agent_tool,
)
from .factory import (
    make_worker as make_worker,
)
from .services import (
    AGENT as AGENT,
)
from .services import (
    Services as Services,
)
from .services import (
    make_services as make_services,
)
from .specs import (
    AnswerRefused as AnswerRefused,
)
from .specs import (
    AnswerToFinish as AnswerToFinish,
)
from .specs import (
    Worker as Worker,
)
from .specs import (
    WorkerSpec as WorkerSpec,
)
from .specs import (
    load_workers as load_workers,
)
from .specs import (
    read_worker_file as read_worker_file,
)
