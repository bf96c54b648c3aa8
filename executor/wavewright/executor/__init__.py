"""From a checked plan to a journaled run."""
