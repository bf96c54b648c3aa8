"""Runs without their effects: dry runs, simulations, recordings, and a scripted model server."""
