"""The commands `daemon`, `worker`, `submit` and `play`."""
