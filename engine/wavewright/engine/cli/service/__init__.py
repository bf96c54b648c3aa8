"""The commands `daemon`, `submit`, `tail` and `topology`."""
