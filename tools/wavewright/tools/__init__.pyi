from .folder import (
    Folder as Folder,
    PathRefused as PathRefused,
)
from .functions.contracts import (
    UserFunction as UserFunction,
)
from .functions.errors import (
    ToolDefinitionError as ToolDefinitionError,
    ToolError as ToolError,
    retry_after_seconds as retry_after_seconds,
)
from .functions.injected import (
    Emit as Emit,
    LogEvent as LogEvent,
    MemoryRunData as MemoryRunData,
    RunData as RunData,
    TextChunk as TextChunk,
)
from .functions.registry import (
    Registry as Registry,
    make_tool as make_tool,
)
from .functions.schemas import (
    model_schema as model_schema,
    schema_of as schema_of,
)
from .functions.tool import (
    Agents as Agents,
    Runtime as Runtime,
    Tool as Tool,
    ToolCall as ToolCall,
    Tools as Tools,
    ignore_emission as ignore_emission,
)
from .functions.user_tools import (
    load_user_tools as load_user_tools,
)
from .mcp.sessions import (
    McpSessions as McpSessions,
)
from .mcp.tools import (
    server_settings as server_settings,
)
from .message_contract import (
    CheckpointForm as CheckpointForm,
    JobProgress as JobProgress,
    LogForm as LogForm,
    MessageContract as MessageContract,
    MessageName as MessageName,
    MessageText as MessageText,
    PackageForm as PackageForm,
    PackagePayload as PackagePayload,
    Payload as Payload,
    RequestedGoal as RequestedGoal,
    RequestForm as RequestForm,
    RequestPayload as RequestPayload,
    TargetDepth as TargetDepth,
    TokenBudget as TokenBudget,
)
from .models.guarded_client import (
    guarded_client as guarded_client,
)
from .models.opening import (
    open_models as open_models,
)
from .network import (
    MINUTE_SECONDS as MINUTE_SECONDS,
    RateLimiter as RateLimiter,
)
from .pack_folders import (
    pack_templates as pack_templates,
    project_prompts as project_prompts,
)
from .packs import (
    Pack as Pack,
    PackError as PackError,
    PackPage as PackPage,
    PackServer as PackServer,
    ServerTool as ServerTool,
    load_pack as load_pack,
    pack_names as pack_names,
    read_pack_file as read_pack_file,
    validated_settings as validated_settings,
)
from .workers.agent_tools import AgentConcurrency as AgentConcurrency, AgentLimits as AgentLimits
from .workers.conversation import (
    read_answer as read_answer,
)
from .workers.long_inputs import (
    cut_text as cut_text,
    summarizer as summarizer,
)
from .workers.named_agents import AgentSpec as AgentSpec, NamedAgent as NamedAgent
from .workers.services import (
    Services as Services,
    make_services as make_services,
)
from .workers.specs import (
    AnswerRefused as AnswerRefused,
    AnswerToFinish as AnswerToFinish,
    Worker as Worker,
    WorkerSpec as WorkerSpec,
)
