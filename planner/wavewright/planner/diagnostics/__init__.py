"""Diagnostics: codes, places, hints, and their rendering as text, JSON and SARIF."""
