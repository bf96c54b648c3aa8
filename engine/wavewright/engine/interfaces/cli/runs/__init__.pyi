from . import (
    comparison_commands as comparison_commands,
    decisions_command as decisions_command,
    earlier_runs as earlier_runs,
    run_command as run_command,
    runs_command as runs_command,
    step_command as step_command,
    verify_command as verify_command,
)
