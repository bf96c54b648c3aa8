"""The checker: every family of checks, what they share, and lint."""
