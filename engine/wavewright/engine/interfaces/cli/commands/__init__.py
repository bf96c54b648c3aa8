"""The commands by topic: their options and their help.

Each imports its own code when it is called, and returns its exit code.
"""
