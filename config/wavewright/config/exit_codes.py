"""Exit codes of every command; `docs/reference/exit-codes.md` explains them to people and scripts."""

OK = 0
"""Done; for `check`: valid; for `run`: the goal is achieved."""
NEGATIVE = 1
"""Done, and the answer is no: faults found, goal not achieved, a difference where none was
expected.
"""
MISUSE = 2
"""The command could not be understood: a wrong option, a file that is not there, faulty settings.
"""
ENVIRONMENT = 3
"""The surroundings failed: journal damaged, busy or read-only, disk full."""
INTERNAL = 70
"""A fault of wavewright itself (EX_SOFTWARE)."""
INTERRUPTED = 130
"""Stopped by Ctrl-C or SIGTERM; the run can be resumed."""
