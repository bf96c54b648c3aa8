"""`wavewright lsp`: the checker in an editor, by the Language Server Protocol."""
