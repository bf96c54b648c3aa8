"""The commands `daemon`, `worker`, `submit`, `tail` and `play`."""
