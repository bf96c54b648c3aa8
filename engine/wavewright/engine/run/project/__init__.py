"""What a project brings: its tools, goal templates and prompts."""
