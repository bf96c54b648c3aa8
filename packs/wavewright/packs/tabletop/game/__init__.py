"""The game without its turns: world, events, the state that they fold into, dice, rules and the
tools over them.
"""
