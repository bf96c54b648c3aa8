"""Public benchmarks: what others have published, put to the checker and the executor."""
