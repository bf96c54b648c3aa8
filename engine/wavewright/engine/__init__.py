"""What ties the rooms together: the pipeline, the command line and the reports."""
