"""Readers of JSON, TOML and YAML that keep the place of every node."""
