from .environments import (
    page_environment as page_environment,
)
from .names import NameFault as NameFault, find_name_faults as find_name_faults
from .templates import PromptError as PromptError, Prompts as Prompts
from .values import data_block as data_block, one_line as one_line, prompt_json as prompt_json
