"""The phases of a run, one file each, in the order of the pipeline."""
