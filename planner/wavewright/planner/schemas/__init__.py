"""JSON Schemas as types: of expressions and values, whether one fits another, and validation."""
