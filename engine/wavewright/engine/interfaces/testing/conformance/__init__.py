"""One set of plans for every runtime: results and journals are those of runs without one."""
