from . import exit_codes as exit_codes
from .documents import (
    Document as Document,
    read_document as read_document,
    read_document_file as read_document_file,
)
from .errors import (
    WavewrightError as WavewrightError,
    did_you_mean as did_you_mean,
)
from .installation import (
    install_hint as install_hint,
    is_installed as is_installed,
    user_state_dir as user_state_dir,
)
from .mcp_servers import (
    McpServerSection as McpServerSection,
)
from .redaction import (
    known_secrets_redactor as known_secrets_redactor,
)
from .sections import (
    LogLevel as LogLevel,
)
from .settings import (
    Settings as Settings,
    load_settings as load_settings,
)
from .sources import (
    DocumentError as DocumentError,
    DocumentFault as DocumentFault,
    ReadLimits as ReadLimits,
    Source as Source,
    Span as Span,
)
from .value_types import (
    ReadPath as ReadPath,
    Seconds as Seconds,
)
