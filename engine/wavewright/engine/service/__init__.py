"""Runs as a service: the daemon, its message bus and messages, logs, metrics and traces."""
