"""Jobs with several targets: waves of targets, and the root run that starts a run for each."""
