"""The fleet: workers on other machines make the calls of a run, over a queue in PostgreSQL."""
