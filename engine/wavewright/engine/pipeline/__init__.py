"""The pipeline of a run: its phases' order, what they carry from one to the next, and the services they share."""
