from . import (
    daemon_command as daemon_command,
    play_command as play_command,
    schedules_command as schedules_command,
    submit_command as submit_command,
    view_command as view_command,
    worker_command as worker_command,
)
