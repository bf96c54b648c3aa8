"""Settings, shipped goal templates, and the door through which every document is read."""
