"""A model server on loopback that answers by a script, to try things out and to test without a
provider.

It says of itself that it is none: `wavewright fake-model` prints that its answers come from the
script.
"""
