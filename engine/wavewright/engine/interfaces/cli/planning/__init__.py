"""The commands `plan`, `do`, `check`, `dry-run` and `keep`, and the fixes of a plan's warnings."""
