"""What a run is: jobs and projects, the phases of a run, questions to people, and its end."""
