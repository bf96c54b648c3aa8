"""What pages say, read by their form: blocks, rows, links, names and kinds. A pack brings the words
of its kinds.
"""
