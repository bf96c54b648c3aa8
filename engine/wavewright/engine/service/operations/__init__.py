"""How a daemon is watched: log lines, metrics, health, traces.

All four are readers of the same things: the events of its runs, and what becomes of its messages
and jobs. None of them is asked before anything is done, and none can stop a run.
"""
