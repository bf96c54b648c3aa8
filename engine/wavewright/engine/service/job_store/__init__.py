"""The job store: a daemon's jobs, decisions, inbox and outbox, in the database of its journal."""
