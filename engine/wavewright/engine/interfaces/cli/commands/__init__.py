"""The commands by topic: their options and their help; each imports its own code when it is called."""
