"""Reviews of a run by code and by model: findings, result, confidence and its caps."""
