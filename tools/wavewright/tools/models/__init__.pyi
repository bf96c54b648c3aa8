from .endpoints import (
    ModelConfigError as ModelConfigError,
    choose_model as choose_model,
    model_configured as model_configured,
)
from .opening import (
    check_models as check_models,
    open_models as open_models,
    output_mode_of as output_mode_of,
)
