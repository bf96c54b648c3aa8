"""Cassettes: answers of models recorded in a file, and replayed from it."""
