from .documents import (
    Document as Document,
)
from .documents import (
    DocumentError as DocumentError,
)
from .documents import (
    DocumentFault as DocumentFault,
)
from .documents import (
    ReadLimits as ReadLimits,
)
from .documents import (
    Source as Source,
)
from .documents import (
    Span as Span,
)
from .documents import (
    read_document as read_document,
)
from .documents import (
    read_document_file as read_document_file,
)
from .errors import (
    WavewrightError as WavewrightError,
)
from .settings import (
    Settings as Settings,
)
from .settings import (
    load_settings as load_settings,
)
