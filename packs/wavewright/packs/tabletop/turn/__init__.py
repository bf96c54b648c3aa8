"""One turn of the game: its context, its phases, the state machine behind its guards, and its
agents.
"""
