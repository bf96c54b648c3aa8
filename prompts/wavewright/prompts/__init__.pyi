from .escaping import (
    data_block as data_block,
)
from .escaping import (
    one_line as one_line,
)
from .escaping import (
    prompt_json as prompt_json,
)
from .templates import (
    PromptError as PromptError,
)
from .templates import (
    Prompts as Prompts,
)
