"""Records read from pages by their form: headings, info boxes, links and patterns of sentences; no
model is asked.
"""
