"""Recovery: patches from recipes, from feedback, or from a model that sees typed status only."""
