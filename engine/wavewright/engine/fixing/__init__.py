"""Fix a plan's text where that is safe, and leave the rest of the text as its author wrote it."""
