"""Packs: the tools, goals, prompts and pages of one field of work each, found by entry point."""
