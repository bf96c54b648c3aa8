from .documents import (
    Document as Document,
    read_document as read_document,
    read_document_file as read_document_file,
)
from .errors import (
    WavewrightError as WavewrightError,
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
