"""Plans read from text: strictly from files, and tolerantly from a model's answer."""
