from .environments import (
    page_environment as page_environment,
)
from .templates import PromptError as PromptError, Prompts as Prompts
from .values import data_block as data_block, one_line as one_line, prompt_json as prompt_json
