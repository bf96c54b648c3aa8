"""Pipelines that projects and packs declare: typed phases in order, and two of them side by side."""
