"""The pipeline of a run: its phases' order, what they carry from one to the next, and the services
they share.

The root run of a job with several targets, and the waves of its targets, are here as well.
"""
