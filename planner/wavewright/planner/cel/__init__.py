"""The expression language: parse, compile and evaluate CEL over JSON values."""
