"""Budgets of model calls: limits, counters and the stores that need no database of their own."""
