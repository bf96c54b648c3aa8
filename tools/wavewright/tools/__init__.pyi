from .folder import (
    Folder as Folder,
    PathRefused as PathRefused,
)
from .functions.errors import (
    ToolDefinitionError as ToolDefinitionError,
    ToolError as ToolError,
)
from .functions.injected import (
    Emit as Emit,
    LogEvent as LogEvent,
    MemoryRunData as MemoryRunData,
    RunData as RunData,
)
from .functions.options import (
    ToolOptions as ToolOptions,
)
from .functions.registry import (
    Registry as Registry,
    make_tool as make_tool,
)
from .functions.tool import (
    Agents as Agents,
    OpenRuntime as OpenRuntime,
    Runtime as Runtime,
    Tool as Tool,
    ToolCall as ToolCall,
    ToolFunction as ToolFunction,
)
from .functions.user_tools import (
    load_user_tools as load_user_tools,
)
from .packs import (
    Pack as Pack,
    PackError as PackError,
    load_pack as load_pack,
    pack_names as pack_names,
    pack_templates as pack_templates,
)
