"""The execution of a plan: scheduling, tool calls, retries, reuse and the recording of events."""
