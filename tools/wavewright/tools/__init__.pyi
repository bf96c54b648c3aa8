from .folder import (
    Folder as Folder,
)
from .folder import (
    PathRefused as PathRefused,
)
from .functions.contracts import (
    ToolDefinitionError as ToolDefinitionError,
)
from .functions.log_events import (
    Emit as Emit,
)
from .functions.log_events import (
    LogEvent as LogEvent,
)
from .functions.registry import (
    Registry as Registry,
)
from .functions.registry import (
    make_tool as make_tool,
)
from .functions.signature_files import (
    read_tools_file as read_tools_file,
)
from .functions.tool import (
    Tool as Tool,
)
from .functions.tool import (
    ToolCall as ToolCall,
)
from .functions.tool import (
    ToolError as ToolError,
)
from .functions.tool import (
    ToolFunction as ToolFunction,
)
from .functions.user_tools import (
    load_user_tools as load_user_tools,
)
from .packs import (
    Pack as Pack,
)
from .packs import (
    PackError as PackError,
)
from .packs import (
    load_pack as load_pack,
)
from .packs import (
    pack_names as pack_names,
)
from .packs import (
    pack_templates as pack_templates,
)
