"""Jinja2 prompt templates, one folder a pack."""
