"""The journal, the job store and the budget store in one SQLite file."""
