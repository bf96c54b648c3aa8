"""Words of a summary by which the goal is not achieved, in the languages that models review in."""

# ruff: noqa: RUF001 - letters and marks of other scripts are meant
from __future__ import annotations

import re
from typing import Final

_DENIED: Final = (
    # Of a language: what a summary speaks of, how it denies it, and what it then is not.
    ("goal|task|question", "not|never|(?:is|was|has)n['’]t|part(?:ly|ially)",
     "achieved|reached|met|fulfilled|solved|answered"),
    ("ziel|aufgabe|frage", "nicht|nie|teilweise", "erreicht|erfüllt|gelöst|beantwortet"),
    ("objectif|but|tâche|question", "pas|jamais|partiellement", "atteinte?|remplie?|accomplie?|résolue?"),
    ("objetivo|meta|tarea|pregunta", "no|nunca|parcialmente",
     "alcanz(?:ado|ada|ó)|cumpli(?:do|da|ó)|logr(?:ado|ó)|resuelt[ao]|respondid[ao]"),
    ("objetivo|meta|tarefa|pergunta", "não|nunca|parcialmente", "alcançad[ao]|atingid[ao]|cumprid[ao]|respondid[ao]"),
    ("obiettivo|compito|domanda", "non|mai|parzialmente", "raggiunt[ao]|soddisfatt[ao]|risolt[ao]"),
    ("doel|taak|vraag", "niet|nooit|gedeeltelijk", "bereikt|gehaald|vervuld|beantwoord"),
    ("cel|zadanie|pytanie", "nie|częściowo", "osiągnięt[aeoy]|spełnion[aeoy]|wykonan[aeoy]"),
    ("цель|задача|вопрос", "не|частично", "достигнут[ао]?|выполнен[ао]?|решен[ао]?|решён"),
)  # fmt: skip
_ONLY: Final = (
    "only|just|merely|simply|nur|bloß|seulement|simplement|sólo|solo|solamente|simplemente|apenas|só"
    "|simplesmente|soltanto|semplicemente|alleen|tylko|только|просто"
)
"""What makes more of a denial: not only achieved."""
DENIAL: Final = re.compile(
    "|".join(
        rf"\b(?:{of})\b[^.;:!?]{{0,30}}\b(?:{denied})\b(?!\s+(?:{_ONLY})\b)[^.,;:!?]{{0,20}}\b(?:{reached})\b"
        for of, denied, reached in _DENIED
    )
    + r"|(?:\bnot|n['’]t|\bfail(?:s|ed)? to|\bunable to)(?: fully)? (?:achieve|reach|meet|fulfil|answer|solve)"
    r"(?: \w{1,12})? (?:goal|task|question)\b"
    r"|[目任][标標务務](?:(?!已[达達实實完])[^。，！？]){0,12}(?:未|没|沒|无法)[^。，！？]{0,6}[达達实實完][成现現到]"
    r"|目標[^。！？]{0,12}[達到][成達][^、。！？]{0,8}(?:ません|ない|なかった)"
    r"|\b(?:i|we) (?:cannot|can['’]t|can not|could not) (?:tell|judge|say|decide|verify|confirm)\b"
    r"|\bkann(?: ich| man)?(?: das| es)? nicht (?:sagen|beurteilen|prüfen|bestätigen)\b"
    r"|\b(?:peux pas|no puedo|não posso) (?:dire|juger|vérifier|confirmer|decir|juzgar|verificar|confirmar)\b",
    re.IGNORECASE,
)
"""Words of a summary by which the goal is not achieved."""
