"""Ports and policies of model calls: the model client, the replay cache, budgets and the fallback
ladder.
"""
