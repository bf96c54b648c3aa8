"""The consumer daemon: jobs come in as messages, are run, and what becomes of them goes out as
messages.

A *job* is taken in once, worked on in a *slot* by `run_job` like any other run, and told about
through the outbox, so that a crash at any moment neither loses it nor does it twice.
"""
