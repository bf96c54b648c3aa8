"""Jobs: from documents to a goal and, where there is one, its plan."""
