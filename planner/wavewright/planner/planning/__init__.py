"""Planning: ask a model for a plan, validate and repair its answers, and build plans without a
model.
"""
