"""The package of a run: its parts, the builder, and its summary in plain text."""
