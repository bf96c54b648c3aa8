from .agent import (
    agent_tool as agent_tool,
)
from .named_agents import (
    AgentSpec as AgentSpec,
    load_agents as load_agents,
)
from .services import Services as Services, make_services as make_services
from .specs import (
    AnswerRefused as AnswerRefused,
    AnswerToFinish as AnswerToFinish,
    Worker as Worker,
    WorkerSpec as WorkerSpec,
    load_workers as load_workers,
    read_worker_file as read_worker_file,
)
from .worker_tools import make_worker as make_worker
