"""Functions and methods of expressions."""
