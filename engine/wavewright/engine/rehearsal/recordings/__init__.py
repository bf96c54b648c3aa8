"""Recordings of runs: what tools answered, kept, so that the same run or another one can be held
against it.
"""
