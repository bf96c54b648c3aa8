"""The events of a run, the state that they fold into, and both as JSON."""
