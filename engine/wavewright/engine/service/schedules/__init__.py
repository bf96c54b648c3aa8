"""Schedules: jobs that begin by themselves, at instants that a cron or a period gives."""
