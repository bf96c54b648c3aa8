from .endpoints import (
    ModelConfigError as ModelConfigError,
)
from .endpoints import (
    choose_model as choose_model,
)
from .endpoints import (
    model_configured as model_configured,
)
from .opening import (
    check_models as check_models,
)
from .opening import (
    open_models as open_models,
)
