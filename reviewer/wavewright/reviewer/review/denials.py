"""Words of a summary by which the goal is not achieved, in the languages that models review in."""

# ruff: noqa: RUF001 - letters and marks of other scripts are meant
from __future__ import annotations

import re
from typing import Final

_DENIED: Final = (
    # Of a language: what a summary speaks of, how it denies it, and what it then is not.
    ("goals?|tasks?|questions?", "not|never|(?:is|was|has|are|were|have)n['’]t|part(?:ly|ially)",
     "achieved|reached|met|fulfilled|solved|answered"),
    ("ziele?|aufgaben?|fragen?", "nicht|nie|teilweise", "erreicht|erfüllt|gelöst|beantwortet"),
    ("objectifs?|buts?|tâches?|questions?", "pas|jamais|partiellement",
     "atteinte?s?|remplie?s?|accomplie?s?|résolue?s?"),
    ("objetivos?|metas?|tareas?|preguntas?", "no|nunca|parcialmente",
     "alcanz(?:ad[oa]s?|ó|aron)|cumpli(?:d[oa]s?|ó|eron)|logr(?:ad[oa]s?|ó|aron)|resuelt[ao]s?|respondid[ao]s?"),
    ("objetivos?|metas?|tarefas?|perguntas?", "não|nunca|parcialmente",
     "alcançad[ao]s?|atingid[ao]s?|cumprid[ao]s?|respondid[ao]s?"),
    ("obiettiv[oi]|compit[oi]|domand[ae]", "non|mai|parzialmente", "raggiunt[aeio]|soddisfatt[aeio]|risolt[aeio]"),
    ("doel(?:en)?|taak|taken|vraag|vragen", "niet|nooit|gedeeltelijk", "bereikt|gehaald|vervuld|beantwoord"),
    ("cele?|zadani[ae]|pytani[ae]", "nie|częściowo", "osiągnięt[aeoy]|spełnion[aeoy]|wykonan[aeoy]"),
    ("цел[ьи]|задач[аи]|вопросы?", "не|частично", "достигнут[аоы]?|выполнен[аоы]?|решен[аоы]?|решён"),
)  # fmt: skip
_ONLY: Final = (
    "only|just|merely|simply|nur|bloß|seulement|simplement|sólo|solo|solamente|simplemente|apenas|só"
    "|simplesmente|soltanto|semplicemente|alleen|tylko|только|просто"
)
"""What makes more of a denial: not only achieved."""
_ASIDE: Final = (
    r"\bquestions? (?:of|about) (?:\w+ ){0,2}"
    r"(?:retr(?:y|ies)|re-?runs?|(?:another|further|new|next) (?:attempt|patch|round|try))\b"
)
"""A question of how the run goes on, which is none of the goal."""
DENIAL: Final = re.compile(
    "|".join(
        rf"\b(?!{_ASIDE})(?:{of})\b(?:(?!{_ASIDE})[^.;:!?]){{0,30}}"
        rf"\b(?:{denied})\b(?!\s+(?:{_ONLY})\b)[^.,;:!?]{{0,20}}\b(?:{reached})\b"
        for of, denied, reached in _DENIED
    )
    + r"|(?:\bnot|n['’]t|\bfail(?:s|ed)? to|\bunable to)(?: fully)? (?:achieve|reach|meet|fulfil|answer|solve)"
    r"(?: \w{1,12})? (?:goal|task|question)s?\b"
    r"|[目任][标標务務](?:(?!已[达達实實完])[^。，！？]){0,12}(?:未|没|沒|无法)[^。，！？]{0,6}[达達实實完][成现現到]"
    r"|目標[^。！？]{0,12}[達到][成達][^、。！？]{0,8}(?:ません|ない|なかった)"
    r"|\b(?:i|we) (?:cannot|can['’]t|can not|could not) (?:tell|judge|say|decide|verify|confirm)\b"
    r"|\bkann(?: ich| man)?(?: das| es)? nicht (?:sagen|beurteilen|prüfen|bestätigen)\b"
    r"|\b(?:peux pas|no puedo|não posso) (?:dire|juger|vérifier|confirmer|decir|juzgar|verificar|confirmar)\b",
    re.IGNORECASE,
)
"""Words of a summary by which the goal is not achieved."""
