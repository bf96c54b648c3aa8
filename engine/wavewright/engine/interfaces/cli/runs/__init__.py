"""The commands that start, resume, retry, replay, list, show and compare runs, and answer their
questions.
"""
