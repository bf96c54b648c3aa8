from . import (
    common as common,
    planning as planning,
    project as project,
    runs as runs,
    service as service,
)
