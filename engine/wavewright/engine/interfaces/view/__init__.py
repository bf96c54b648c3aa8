"""The live page: runs, jobs and decisions of a project, read from its journal."""
