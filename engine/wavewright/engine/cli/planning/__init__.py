"""The commands `plan`, `check` and `dry-run`."""
