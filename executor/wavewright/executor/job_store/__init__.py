"""Jobs that outlive processes: what came in, what is being done, whom is waited for, what must go out.

The *job store* is the journal's other half and lies in the same database, so that a run's events and the messages
that they cause are one transaction. `port` says what it promises, `records` what it keeps.
"""
