"""From a run to a verdict, then to a package."""
