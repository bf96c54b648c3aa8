"""The page on which a game is played: an ASGI application with its templates, style and script."""
