"""What follows from a plan: expressions and their uses, the graph, estimates, binding to a goal,
diffs and patches.
"""
