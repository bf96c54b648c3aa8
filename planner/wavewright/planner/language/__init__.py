"""The plan language as typed data: plans, goals, tool signatures, their hashes and published
schemas.
"""
