"""Plans and runs from Python: load, build, make, check and forecast plans, run them and read what
came of it.
"""
