from . import (
    check_command as check_command,
    dry_run_command as dry_run_command,
    keep_command as keep_command,
    plan_check as plan_check,
    plan_command as plan_command,
)
