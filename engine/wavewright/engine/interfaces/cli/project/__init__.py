"""The commands `tools`, `schema`, `init`, `doctor` and `fake-model`."""
