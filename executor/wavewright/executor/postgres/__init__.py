"""The journal and what belongs to it in a PostgreSQL database, shared by as many machines as can
reach it.

Nothing here is imported unless a project's journal has the address of such a database. What each
part promises is what its twin in SQLite promises, and the same tests say so.
"""
