from . import (
    doctor_command as doctor_command,
    fake_model_command as fake_model_command,
    init_command as init_command,
    tools_command as tools_command,
    undeclared_tools as undeclared_tools,
)
