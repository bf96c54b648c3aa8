"""From a goal to a checked plan: the plan language, its checker, its graph and its patches."""
