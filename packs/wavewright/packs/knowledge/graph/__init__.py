"""The graph of what documents say: its store, the merging of its entities, and where else it is
written.
"""
