"""A model worker that writes a line about a word: what tests of costs and of prompts declare."""

NOTE_WORKER = """\
name: note
description: Write one line about a word.
prompt: workers/note
input_schema: {type: object, required: [word], properties: {word: {type: string}}, additionalProperties: false}
output_schema: {type: object, required: [line], properties: {line: {type: string}}, additionalProperties: false}
"""
