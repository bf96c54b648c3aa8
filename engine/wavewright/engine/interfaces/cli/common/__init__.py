"""What several commands share: arguments, errors, exit codes, the terminal, progress and the
broker.
"""
