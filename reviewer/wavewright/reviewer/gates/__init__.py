"""Gates: what each kind checks, the verifier that evaluates them, and the model that judges
rubrics.
"""
