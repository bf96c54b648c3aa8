"""Prose as spaCy reads it: the names in a sentence with their types, and what it says of whom.

Sentences are read one by one, as the rest of the package cuts them, so that each is evidence of
what was read in it. What is asked, denied, supposed or said in quotation is left out; so is a
pronoun that may stand for several names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from wavewright.config import Span, install_hint, is_installed
from wavewright.packs.extraction.blocks import WORD, word_set
from wavewright.planner import DocumentModel

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc, Token

PERSON: Final = "person"
ORGANIZATION: Final = "organization"
_TYPES: Final = {
    "PERSON": PERSON,
    "PER": PERSON,
    "ORG": ORGANIZATION,
    "GPE": "place",
    "LOC": "place",
    "FAC": "place",
    "EVENT": "event",
    "WORK_OF_ART": "work",
    "PRODUCT": "product",
    "LAW": "law",
    "MISC": "thing",
}
"""Types of names by the labels of spaCy's models; other labels are of dates, numbers and peoples."""

TITLES: Final = word_set(
    "admiral archbishop aunt baron baroness bishop brother captain chancellor chief colonel commander count "
    "countess dame doctor dr duchess duke elder emperor empress father general governor judge king lady "
    "lieutenant lord madam major master mayor minister miss mister mr mrs ms pope president prince princess "
    "prof professor queen saint senator sergeant sheriff sir sister st uncle"
)
"""What stands before the names of people."""
_ALSO_OF_THINGS: Final = word_set("general major master saint st")
"""Titles that companies and places begin with, too."""

Pronoun: TypeAlias = Literal["he", "she", "it", "they"]
_PRONOUNS: Final[dict[str, Pronoun]] = {
    **dict.fromkeys(("he", "him", "his"), "he"),
    **dict.fromkeys(("she", "her", "hers"), "she"),
    **dict.fromkeys(("it", "its"), "it"),
    **dict.fromkeys(("they", "them", "their"), "they"),
}
_NOWHERE: Final = Span(0, 0)
_MAX_SENTENCE: Final = 2_000
"""Characters; what is longer is no sentence."""
_MIN_WORDS: Final = 15
"""Of a text whose language can be told."""
_MIN_SHARE: Final = 0.2
"""Of small words, such as articles and prepositions, in a text of the model's language; about two
fifths are usual."""
_LANGUAGES: Final = (
    "da", "de", "en", "es", "fi", "fr", "it", "nb", "nl", "pl", "pt", "ro", "ru", "sv", "uk",
)  # fmt: skip
"""Those that spaCy has a small model of."""
_MAX_KNOWN: Final = 20_000
"""Sentences whose reading is kept in the process."""


class ProseSettings(DocumentModel):
    """The part `extraction` of a pack's settings."""

    model: str = "en_core_web_sm"
    """spaCy model that reads prose, by its name or path; it tells the language."""


@dataclass(frozen=True, slots=True)
class ProseName:
    """A name in a sentence."""

    text: str
    type: str
    """Empty where the model knows none."""
    span: Span
    title: str = ""
    """Words in capitals right before it that belong to it, as `Sir` does."""

    @property
    def titled(self) -> str:
        """The name; of a single word, with its title: a first name alone may be anybody's."""
        return self.text if " " in self.text or not self.title else f"{self.title} {self.text}"


@dataclass(frozen=True, slots=True)
class Phrase:
    """What a statement is about: a noun with its words, or a pronoun."""

    head: int
    """Place of the noun in the sentence; a name that has it within is what the phrase names."""
    span: Span
    pronoun: Pronoun | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """What a sentence says of two phrases."""

    source: Phrase
    relation: str
    """In the sentence's words: `founded`, `captain of`, `born in`."""
    target: Phrase
    verb: str
    """In its basic form; empty where none says it."""
    noun: str = ""
    """What the source is, in the singular, as in `captain of`."""
    preposition: str = ""


@dataclass(frozen=True, slots=True)
class Clause:
    """A verb with what it is said of and what follows it."""

    subjects: tuple[Phrase, ...]
    verb: str
    """In its basic form; `be` for an apposition, too."""
    rest: Span
    """What follows the verb, up to the end of the clause."""
    noun: str = ""
    """What the subject is said to be, in the singular."""
    phrase: Span = _NOWHERE
    """That noun with the words before it, without an article."""
    words: frozenset[str] = frozenset()
    """Adjectives that the subject is said to be."""
    preposition: str = ""
    """The first one after the verb."""
    has_somebody: bool = False
    """Whether the noun is somebody `who` does something."""
    is_present: bool = False
    """Whether the verb tells of now."""
    objects: tuple[Phrase, ...] = ()
    """Whom or what the verb is done to, without a preposition."""


@dataclass(frozen=True, slots=True)
class SentenceProse:
    """What one sentence says."""

    is_sentence: bool = False
    """Whether it has a verb: anything else is a heading or a label."""
    names: tuple[ProseName, ...] = ()
    clauses: tuple[Clause, ...] = ()
    statements: tuple[Statement, ...] = ()
    pronouns: tuple[Phrase, ...] = ()


NO_PROSE: Final = SentenceProse()


class ProseReader:
    """Reads sentences by one of spaCy's models; without a model, nothing is read in them."""

    def __init__(self, language: Language | None) -> None:
        self._language = language
        self._lock = Lock()
        self._known: dict[str, SentenceProse] = {}

    def is_of_another_language(self, text: str) -> bool:
        """Whether a text has too few of the small words of the model's language to be in it."""
        small = set[str]() if self._language is None else self._language.Defaults.stop_words
        words = _small_letters(text)
        return bool(small) and len(words) >= _MIN_WORDS and _share_of(small, words) < _MIN_SHARE

    def read(self, sentence: str) -> SentenceProse:
        """Return what a sentence says."""
        return self.read_all((sentence,))[0]

    def read_all(self, sentences: Sequence[str]) -> list[SentenceProse]:
        """Return what each of some sentences says; many at once are read faster than one by one."""
        if self._language is None:
            return [NO_PROSE] * len(sentences)
        # Chunks are read in threads, and a model is used by one at a time.
        with self._lock:
            if len(self._known) > _MAX_KNOWN:
                self._known.clear()
            new = [
                text
                for text in dict.fromkeys(sentences)
                if text not in self._known and len(text) <= _MAX_SENTENCE
            ]
            for text, doc in zip(new, self._language.pipe(new), strict=True):
                self._known[text] = _SentenceReader(doc).read()
            return [self._known.get(text, NO_PROSE) for text in sentences]


NO_READER: Final = ProseReader(None)


@cache
def prose_reader(model: str) -> ProseReader:
    """Return the reader that a model is loaded for once in a process; one that reads nothing where
    spaCy or the model is not installed.
    """
    name = installed_model(model)
    if name is None:
        return NO_READER
    import spacy

    return ProseReader(spacy.load(name))


def _small_letters(text: str) -> list[str]:
    return [word.casefold() for word in WORD.findall(text)]


def _share_of(small: AbstractSet[str], words: Sequence[str]) -> float:
    return sum(word in small for word in words) / max(1, len(words))


def _model_of_language(text: str) -> str:
    """Return spaCy's model of the language whose small words a text has most; empty where it has
    too few of each.
    """
    words = _small_letters(text)
    shares = {
        code: _share_of(import_module(f"spacy.lang.{code}.stop_words").STOP_WORDS, words)
        for code in _LANGUAGES
    }
    best = max(shares, key=shares.__getitem__)
    written = "web" if best == "en" else "news"
    return f"{best}_core_{written}_sm" if shares[best] >= _MIN_SHARE else ""


def prose_note(model: str, texts: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return what is to be said of prose that cannot be read, with the commands that change it;
    nothing where it can be. `texts`, by the names of their documents, may be in another language.
    """
    if installed_model(model) is not None:
        reader = prose_reader(model)
        others = {
            name: other
            for name, text in texts.items()
            if reader.is_of_another_language(text) and (other := _model_of_language(text))
        }
        if not others:
            return ""
        first = next(iter(others.values()))
        shown = ", ".join([*others][:3]) + (" and more" if len(others) > 3 else "")
        return (
            f"only the form of {shown} was read, no prose: {model} is of another language; to have it "
            f"read: python -m spacy download {first}, and name it: extraction: {{model: {first}}}"
        )
    commands = [f"python -m spacy download {model}"]
    if not is_installed("nlp"):
        commands.insert(0, install_hint("nlp"))
    return (
        "only titles, headings, links, tables and lists were read, no prose; "
        f"to have it read: {' && '.join(commands)}"
    )


def installed_model(model: str) -> str | None:
    """Return the name or path that spaCy loads a model by; None where it is not there.

    Registries of packages have copies of spaCy's models under longer names: these serve, too.
    """
    if not is_installed("nlp"):
        return None
    if Path(model).is_dir() or (model.isidentifier() and find_spec(model) is not None):
        return model
    copies = (point.name for point in entry_points(group="spacy_models"))
    return next((name for name in sorted(copies) if name.startswith(f"{model}_")), None)


_CLAUSE_VERBS: Final = frozenset({"VERB", "AUX"})
_SUBJECTS: Final = frozenset({"nsubj", "nsubjpass"})
_RELATIVES: Final = frozenset({"who", "which", "that", "whom"})
_PLACES: Final = frozenset({"GPE", "LOC", "FAC"})
_COPULAS: Final = frozenset({"be", "become", "remain"})
_MODALS: Final = word_set("would could should may might must can will shall 'd 'll")
_REPORTS: Final = word_set(
    "say tell claim believe think allege deny hope fear suspect suggest argue propose wish want "
    "expect pretend doubt dream imagine ask wonder plan recommend insist assume feel agree promise "
    "swear threaten"
)
"""Verbs whose clause is what somebody says or wants, and no fact."""
_DIRECTIONS: Final = word_set("north south east west northeast northwest southeast southwest")
_MET: Final = word_set("find see meet buy obtain")
"""What can be done to a thing where it is: "It can be found in Orla" says that it is there."""
_READERS: Final = frozenset({"you", "players"})
"""Whom a text tells where something is: "You will find it in Orla"."""
_CONDITIONS: Final = word_set("if unless whether lest though")
_NO_RELATIONS: Final = word_set(
    "without except unlike like than before until since during despite including per about among "
    "amongst because instead besides over after though while as"
)
"""Prepositions that say when or how, and nothing of two things."""
_OF_NAMES: Final = frozenset({"of", "from"})
"""Prepositions that relate two names which stand beside each other."""
_BETWEEN_NAMES: Final = word_set("under by with near via from against")
"""Prepositions that stand between two names, and in none."""
_MOST_CAPITALS: Final = 0.6
"""Of the letters of a sentence with names in it."""
_ARTICLES: Final = frozenset({"the", "a", "an"})
_QUOTED: Final = re.compile(r'“[^”]*”|"[^"]*"|(?<!\w)\u2018[^\u2019]*\u2019(?!\w)')
_NO_NAME: Final = re.compile(r"[_<>@\\/|{}\[\]=*#`~^]|^[\W\d]|\W{3}|://|\d{5}")
"""Of what is a number, an address or code."""
_DETERMINERS: Final = word_set("a an any each every either no such this these those all which")
"""Words before a noun that is one of several, and so no name."""
_POSSESSIVE: Final = re.compile(r"['’]s?$")


class _SentenceReader:
    """Reads one sentence that spaCy has parsed."""

    def __init__(self, doc: Doc) -> None:
        self._doc = doc
        self._quoted = [match.span() for match in _QUOTED.finditer(doc.text)]

    def read(self) -> SentenceProse:
        """Return what it says."""
        if not any(token.pos_ in _CLAUSE_VERBS for token in self._doc):
            return NO_PROSE
        if _is_in_capitals(self._doc.text):
            return SentenceProse(is_sentence=True)
        typed = tuple(self._names())
        names = (*typed, *self._proper_nouns(typed))
        if any(map(_is_order, self._doc)):
            # "Add Lentils", "Press the Red Button": what a recipe or a manual names in orders is
            # seldom a name.
            names = tuple(one for one in names if one.type == "place" or self._is_of_many(one))
        if self._doc.text.rstrip().endswith("?"):
            return SentenceProse(is_sentence=True, names=names)
        verbs = [token for token in self._doc if self._is_told(token)]
        clauses = [clause for verb in verbs for clause in self._clauses(verb)]
        clauses += self._appositions()
        statements = [one for verb in verbs for one in self._of_verb(verb)]
        statements += [one for token in self._doc for one in self._of_noun(token)]
        pronouns = [_phrase(token) for token in self._doc if token.lower_ in _PRONOUNS]
        return SentenceProse(
            is_sentence=True,
            names=names,
            clauses=tuple(clauses),
            statements=tuple(
                one for one in dict.fromkeys(statements) if one.source.head != one.target.head
            ),
            pronouns=tuple(pronouns),
        )

    def _names(self) -> Iterator[ProseName]:
        for entity in self._doc.ents:
            kind = _TYPES.get(entity.label_)
            if kind is None:
                continue
            if any(map(_is_small_verb, entity)):
                # "Thomas attended Eton": what the model takes for one name is a sentence.
                kind = ""
            for part in _parts(entity):
                tokens = [*part]
                is_cut = bool(tokens) and tokens[0].tag_ == "VB"
                while tokens and (
                    tokens[0].lower_ in _ARTICLES
                    or tokens[0].pos_ == "PUNCT"
                    or tokens[0].tag_ == "VB"
                ):
                    tokens.pop(0)
                while tokens and (tokens[-1].tag_ == "POS" or tokens[-1].pos_ == "PUNCT"):
                    tokens.pop()
                if not tokens:
                    continue
                start, end = tokens[0].idx, tokens[-1].idx + len(tokens[-1].text)
                text = _POSSESSIVE.sub("", self._doc.text[start:end])
                if _is_a_name(text, tokens) and self._is_named(tokens, kind):
                    # Behind "under" or "by" stands somebody else, of whom the model says nothing.
                    own = kind if part[0].i == entity.start and not is_cut else ""
                    yield ProseName(text, own, Span(start, start + len(text)), _title(tokens[0]))

    def _proper_nouns(self, names: Sequence[ProseName]) -> Iterator[ProseName]:
        """Yield the proper nouns that the model knows no type of: what a clause calls them is one."""
        for chunk in self._doc.noun_chunks:
            tokens = [*chunk]
            while tokens and (tokens[0].lower_ in _ARTICLES or tokens[0].pos_ != "PROPN"):
                tokens.pop(0)
            part = _of_part(chunk.root)
            is_written_so = chunk.root.text[:1].isupper() and chunk.root.i > 0 and bool(part)
            if not tokens and is_written_so:
                # "The Order of the Pale Hand": an ordinary noun that is written as a name.
                tokens = [chunk.root]
            elif (
                not tokens or tokens[-1] != chunk.root or any(one.pos_ != "PROPN" for one in tokens)
            ):
                continue
            tokens += part
            start, end = tokens[0].idx, tokens[-1].idx + len(tokens[-1].text)
            # "The Drowning of Ceor" is more than the Ceor within it.
            inner = part[0].idx if part else end
            is_known = any(one.span.start < inner and start < one.span.end for one in names)
            text = self._doc.text[start:end]
            is_titled = len(tokens) > 1 and tokens[0].lower_ in TITLES - _ALSO_OF_THINGS
            if not is_known and _is_a_name(text, tokens) and self._is_named(tokens, ""):
                yield ProseName(text, PERSON if is_titled else "", Span(start, end))

    def _is_named(self, tokens: Sequence[Token], kind: str) -> bool:
        """Whether a text is a name where it stands: not a term that the document defines, as `each
        Licensee` and `the "Data"`.
        """
        before = [one.lower_ for one in tokens[0].lefts]
        if tokens[0].i > 0:
            before.append(self._doc[tokens[0].i - 1].lower_)
        head = tokens[-1]
        before += [one.lower_ for one in head.lefts if one.dep_ == "det"]
        if _DETERMINERS & {*before}:
            return False
        is_section = len(tokens) == 2 and tokens[-1].like_num and kind not in {"product", ""}
        start = tokens[0].idx
        is_quoted = self._doc.text[start - 1 : start] in {'"', "“"} if start else False
        return not is_section and not is_quoted

    def _is_of_many(self, name: ProseName) -> bool:
        """Whether a name has several words and no article."""
        before = self._doc.text[: name.span.start].casefold()
        return " " in name.text and not before.endswith("the ")

    # -- what is told -----------------------------------------------------------------------------

    def _is_told(self, verb: Token) -> bool:
        """Whether a word is a verb that states something: not denied, supposed, asked or quoted."""
        if verb.pos_ not in _CLAUSE_VERBS or verb.dep_ in {"aux", "auxpass", "xcomp", "amod"}:
            return False
        if any(start < verb.idx < end for start, end in self._quoted):
            return False
        return self._is_stated(verb)

    def _is_stated(self, verb: Token) -> bool:
        for child in verb.children:
            is_denied = child.dep_ == "neg" or child.lower_ in {"never", "hardly", "no"}
            is_denied |= child.lower_ == "longer" and any(one.dep_ == "neg" for one in child.lefts)
            is_modal = child.dep_ in {"aux", "auxpass"} and child.lower_ in _MODALS
            is_modal &= not _tells_where(verb, child.lower_)
            if is_denied or is_modal or (child.dep_ == "mark" and child.lower_ in _CONDITIONS):
                return False
            if child.dep_ in _SUBJECTS and any(
                one.lower_ in {"no", "neither"} for one in child.children
            ):
                return False
        if verb.dep_ == "ccomp" and verb.head.lemma_ in _REPORTS:
            return False
        is_chained = verb.dep_ in {"conj", "ccomp"} and verb.head.pos_ in _CLAUSE_VERBS
        return self._is_stated(verb.head) if is_chained else True

    def _subjects(self, verb: Token) -> list[Token]:
        """Return the nouns that a verb is said of."""
        own = [child for child in verb.children if child.dep_ in _SUBJECTS]
        if own and own[0].lower_ in _RELATIVES and verb.dep_ == "relcl":
            own = [same for one in _antecedents(own[0], verb.head) for same in self._described(one)]
        if not own and _is_reduced(verb):
            own = self._described(verb.head)
        if not own and verb.dep_ == "conj" and verb.head.pos_ in _CLAUSE_VERBS:
            return self._subjects(verb.head)
        return [one for token in own for one in _all_of(token)]

    def _described(self, noun: Token) -> list[Token]:
        """Return a noun and whom it describes: "Ada was a chemist who led Orla" says it of Ada."""
        described: list[Token] = []
        if noun.pos_ == "NOUN" and noun.dep_ == "appos":
            described = [noun.head]
        if noun.pos_ == "NOUN" and noun.dep_ == "attr" and self._is_told(noun.head):
            described = self._subjects(noun.head)
        return [noun, *described]

    # -- clauses ----------------------------------------------------------------------------------

    def _clauses(self, verb: Token) -> Iterator[Clause]:
        subjects = tuple(_phrase(one) for token in self._subjects(verb) for one in _same_as(token))
        if not subjects:
            return
        noun, words = _said_to_be(verb) if verb.lemma_ in _COPULAS else (None, frozenset[str]())
        preposition = next(
            (one.lower_ for one in verb.rights if one.dep_ in {"prep", "agent", "dative"}), ""
        )
        if noun is not None and not preposition:
            preposition = _preposition_of(noun)
        # "A captain of the guard and an old friend of Ada": each noun says it by itself.
        others = [] if noun is None else [one for one in noun.conjuncts if one.pos_ == "NOUN"]
        whole, rest = self._rest(verb), self._rest(verb, others)
        # A place that the model has never seen is no object to it, but one more word.
        objects = [
            one
            for one in verb.rights
            if one.dep_ == "dobj" or (one.dep_ == "npadvmod" and one.pos_ == "PROPN")
        ]
        yield Clause(
            subjects,
            verb.lemma_,
            rest,
            noun="" if noun is None else noun.lemma_.lower(),
            phrase=_NOWHERE if noun is None else _noun_phrase(noun),
            words=words,
            preposition=preposition,
            has_somebody=noun is not None and _does_something(noun),
            is_present=_is_of_now(verb),
            objects=tuple(_phrase(one) for one in objects),
        )
        for other in others:
            end = max(whole.end, _noun_phrase(other).end)
            yield _called(subjects, other, end, verb=verb.lemma_, is_present=_is_of_now(verb))

    def _appositions(self) -> Iterator[Clause]:
        """Yield what a name is called beside it: `Ines Varga, captain of the Kittiwake`."""
        for token in self._doc:
            if token.dep_ == "compound" and token.pos_ == "NOUN" and token.head.pos_ == "PROPN":
                # "The wraith-king Morvath": the noun before a name says what it is.
                yield _called((_phrase(token.head),), token, token.idx + len(token.text))
            pairs = [(token.head, token), (token, token.head)] if token.dep_ == "appos" else []
            if _gives_a_name(token.head):
                pairs = [(token, token.head.head)]
            for name, noun in pairs:
                if name.pos_ == "PROPN" and noun.pos_ == "NOUN":
                    end = max(one.idx + len(one.text) for one in noun.subtree)
                    yield _called((_phrase(name),), noun, end)

    def _rest(self, verb: Token, others: Sequence[Token] = ()) -> Span:
        """Return what follows a verb and its adverbs (`ruled directly`): up to where another clause
        or one of the `others` begins, or the sentence ends.
        """
        last = verb
        for word in verb.rights:
            last = word if word.i == last.i + 1 and word.lower_.endswith("ly") else last
        start = last.idx + len(last.text)
        text = self._doc.text
        ends = [len(text.rstrip(" .!?;:"))]
        ends += [text.find(";", start)] if ";" in text[start:] else []
        ends += [one.left_edge.idx for one in others if one.left_edge.idx > start]
        for child in verb.rights:
            if child.dep_ in {"conj", "parataxis"}:
                ends.append(child.left_edge.idx)
        rest = text[start : min(ends)]
        for mark in (", and", ", but", " and", " but", ","):
            rest = rest.rstrip().removesuffix(mark)
        shift = len(rest) - len(rest.lstrip())
        return Span(start + shift, start + len(rest))

    # -- statements -------------------------------------------------------------------------------

    def _of_verb(self, verb: Token) -> Iterator[Statement]:
        subjects = [one for token in self._subjects(verb) for one in _same_as(token)]
        words = _verb_words(verb)
        for child in verb.children if subjects else ():
            if child.dep_ in {"prep", "agent"}:
                yield from _of_preposition(verb, child, subjects, words)
            elif child.dep_ in {"dobj", "attr", "oprd"}:
                yield from _of_object(verb, child, subjects, words)
            elif child.dep_ == "acomp":
                # "She is responsible for", "older than": the adjective says it, comparing or not.
                yield from _with_prepositions(subjects, child.lower_, child, "be", frozenset())

    def _of_noun(self, token: Token) -> Iterator[Statement]:
        """Yield what names say that stand beside each other or beside a noun."""
        if any(start < token.idx < end for start, end in self._quoted):
            return
        if token.dep_ == "appos":
            for name, noun in ((token.head, token), (token, token.head)):
                if name.pos_ == "PROPN" and noun.pos_ == "NOUN":
                    yield from _of_description(name, noun, "")
        elif token.pos_ == "PROPN":
            for child in token.children:
                if child.dep_ == "compound" and child.pos_ == "NOUN" and child.i < token.i:
                    # "Her daughter Irène": the noun before the name says whose she is.
                    owners = [one for one in token.children if one.dep_ == "poss"]
                    yield from _of_owners(token, child, owners, "")
                if child.dep_ == "prep" and child.lower_ in _OF_NAMES:
                    yield from _pairs([token], child.lower_, _objects(child), "", "", child.lower_)


def _called(
    subjects: tuple[Phrase, ...],
    noun: Token,
    end: int,
    *,
    verb: str = "be",
    is_present: bool = False,
) -> Clause:
    """Return the clause in which a noun says what its subjects are, up to a place."""
    phrase = _noun_phrase(noun)
    return Clause(
        subjects,
        verb,
        Span(phrase.start, end),
        noun=noun.lemma_.lower(),
        phrase=phrase,
        preposition=_preposition_of(noun),
        has_somebody=_does_something(noun),
        is_present=is_present,
    )


def _of_preposition(
    verb: Token, preposition: Token, subjects: Sequence[Token], words: str
) -> Iterator[Statement]:
    """Yield what a verb says with a preposition: `born in`, `led by`."""
    word = preposition.lower_
    targets = _objects(preposition)
    if word == "after" and verb.lemma_ in {"name", "call"}:
        yield from _pairs(subjects, f"{words} after", targets, verb.lemma_, "", word)
    elif word == "as":
        for noun in (one for one in targets if one.pos_ == "NOUN"):
            # "She worked as a chemist at": where she did it is said of the chemist.
            yield from _with_prepositions(subjects, f"{words} as {noun.lower_}", noun, verb.lemma_)
    elif word not in _NO_RELATIONS:
        # "She is in Paris": being somewhere needs no verb to say it.
        is_being = verb.lemma_ == "be" and not _is_passive(verb)
        relation = word if is_being else f"{words} {word}"
        things = [one for one in verb.children if one.dep_ == "dobj" and one.pos_ == "NOUN"]
        if things:
            # "She opened a bank in Halifax": what she opened is part of what is said.
            relation = f"{words} {things[0].lower_} {word}"
        yield from _pairs(subjects, relation, targets, verb.lemma_, "", word)


def _of_object(
    verb: Token, child: Token, subjects: Sequence[Token], words: str
) -> Iterator[Statement]:
    """Yield what a verb says of its object, and of what the object is of."""
    is_description = child.dep_ == "attr" and verb.lemma_ in _COPULAS
    if child.dep_ == "dobj" and _is_passive(verb):
        return
    for noun in _all_of(child):
        if child.dep_ == "dobj":
            yield from _pairs(subjects, words, _same_as(noun), verb.lemma_)
        if noun.pos_ != "NOUN":
            continue
        if is_description:
            for source in subjects:
                yield from _of_description(source, noun, verb.lemma_)
        else:
            # "She opened a school in", "he is appointed head of".
            yield from _with_prepositions(subjects, f"{words} {noun.lower_}", noun, verb.lemma_)


def _of_description(source: Token, noun: Token, verb: str) -> Iterator[Statement]:
    """Yield whose or where somebody is what a noun says: `captain of`."""
    yield from _with_prepositions([source], noun.lower_, noun, verb)
    owners = [one for child in noun.children if child.dep_ == "poss" for one in _all_of(child)]
    yield from _of_owners(source, noun, owners, verb)


def _of_owners(
    source: Token, noun: Token, owners: Sequence[Token], verb: str
) -> Iterator[Statement]:
    """Yield whose a noun says that somebody is: `the town's captain` is the captain of the town."""
    yield from _pairs([source], f"{noun.lower_} of", owners, verb, noun.lemma_.lower(), "of")


def _with_prepositions(
    sources: Sequence[Token],
    words: str,
    word: Token,
    verb: str,
    others: frozenset[str] = _NO_RELATIONS,
) -> Iterator[Statement]:
    """Yield what is said in some words with each preposition behind the last of them, but for
    `others`.
    """
    for child in word.children:
        if child.dep_ == "prep" and child.lower_ not in others:
            relation = f"{words} {child.lower_}"
            noun = word.lemma_.lower()
            yield from _pairs(sources, relation, _objects(child), verb, noun, child.lower_)


def _pairs(
    sources: Iterable[Token],
    relation: str,
    targets: Sequence[Token],
    verb: str,
    noun: str = "",
    preposition: str = "",
) -> Iterator[Statement]:
    for source in sources:
        for target in targets:
            yield Statement(_phrase(source), relation, _phrase(target), verb, noun, preposition)


def _phrase(token: Token) -> Phrase:
    start, end = token.left_edge.idx, token.right_edge.idx + len(token.right_edge.text)
    return Phrase(token.idx, Span(start, end), _PRONOUNS.get(token.lower_))


def _parts(entity: Iterable[Token]) -> list[list[Token]]:
    """Return what a model takes for one name, cut at the verbs and prepositions that stand in none."""
    parts: list[list[Token]] = [[]]
    for token in entity:
        if (token.lower_ in _BETWEEN_NAMES or _is_small_verb(token)) and parts[-1]:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def _is_small_verb(token: Token) -> bool:
    return token.pos_ == "VERB" and token.text.islower()


def _all_of(token: Token) -> list[Token]:
    """Return the parts of an enumeration, or the one noun."""
    return [token, *(one for one in token.conjuncts if one.i > token.i)]


def _is_in_capitals(text: str) -> bool:
    """Whether a sentence is written in capitals: nothing tells a name in it."""
    letters = [one for one in text if one.isalpha()]
    return sum(map(str.isupper, letters)) > _MOST_CAPITALS * len(letters)


def _is_order(verb: Token) -> bool:
    """Whether a verb says what to do: `Add the onion`."""
    is_bare = verb.tag_ == "VB" and verb.dep_ == "ROOT"
    return is_bare and not any(
        one.dep_ in {"aux", "auxpass", "nsubj", "nsubjpass"} for one in verb.children
    )


def _antecedents(relative: Token, noun: Token) -> list[Token]:
    """Return the noun that a relative pronoun stands for: `who` is nobody's town. In "the king of
    Denmark, who had taken Visby" it is the noun before; where that is no name either, none.
    """
    if relative.lower_ not in {"who", "whom"} or noun.ent_type_ not in _PLACES:
        return [noun]
    is_within = noun.dep_ == "pobj" and noun.head.dep_ == "prep"
    outer = noun.head.head
    return [outer] if is_within and outer.pos_ in {"PROPN", "NOUN"} else []


def _same_as(token: Token) -> list[Token]:
    """Return a noun and the names that stand beside it for the same: `its captain, Joss Verrin`, `a
    boy named Pip`.
    """
    beside = [one for one in token.children if one.dep_ == "appos"]
    beside += [one for child in token.children if _gives_a_name(child) for one in child.children]
    return [token, *(one for one in beside if one.pos_ == "PROPN")]


def _gives_a_name(verb: Token) -> bool:
    return verb.dep_ == "acl" and verb.lemma_ in {"name", "call"}


def _objects(preposition: Token) -> list[Token]:
    """Return what a preposition leads to, with the names beside it."""
    return [
        same
        for child in preposition.children
        if child.dep_ == "pobj"
        for one in _all_of(child)
        for same in _same_as(one)
    ]


def _verb_words(verb: Token) -> str:
    """Return a verb as it is written, with its particle."""
    particle = next((one.lower_ for one in verb.children if one.dep_ == "prt"), "")
    return f"{verb.lower_} {particle}".strip()


def _is_passive(verb: Token) -> bool:
    """Whether something is done to the subject: `founded by`, with or without a `was` before it."""
    return _is_reduced(verb) or any(one.dep_ in {"nsubjpass", "auxpass"} for one in verb.children)


def _tells_where(verb: Token, helper: str) -> bool:
    """Whether what can be done to a thing says where it is."""
    is_readers = any(
        child.dep_ in _SUBJECTS and child.lower_ in _READERS for child in verb.children
    )
    if is_readers:
        return helper in {"can", "will"} and verb.lemma_ in _MET
    # "It may be found in Orla" tells where it is; "may have been found by Ada" is a guess.
    is_guess = any(child.dep_ == "agent" or child.lower_ == "have" for child in verb.children)
    is_findable = helper == "may" and verb.lemma_ == "find" and not is_guess
    is_so = is_findable or (helper == "can" and verb.lemma_ in _MET)
    return is_so and _is_passive(verb)


def _is_reduced(verb: Token) -> bool:
    """Whether a verb describes the noun before it: `a town ruled by`; the model takes many such
    participles for the past.
    """
    return verb.dep_ == "acl" and verb.tag_ in {"VBN", "VBD"}


def _said_to_be(verb: Token) -> tuple[Token | None, frozenset[str]]:
    """Return the noun that a subject is said to be, and the adjectives."""
    nouns = [one for one in verb.children if one.dep_ == "attr" and one.pos_ in {"NOUN", "PROPN"}]
    adjectives = [one for one in verb.children if one.dep_ == "acomp"]
    every = [*adjectives, *(one for first in adjectives for one in first.conjuncts)]
    described = [one for noun in nouns for one in noun.children if one.dep_ == "amod"]
    words = frozenset(one.lower_ for one in (*every, *described))
    noun = nouns[0] if nouns else None
    if noun is not None and noun.lower_ in _DIRECTIONS:
        # "A fortress west of Orla": the model takes the direction for what it is.
        before = noun.doc[noun.i - 1]
        noun = before if before.pos_ == "NOUN" else noun
    if noun is not None and noun.lemma_ == "one":
        # "One of the five harbours" is a harbour.
        inner = next((one for child in noun.children for one in _objects(child)), None)
        noun = inner or noun
    return noun, words


def _is_of_now(verb: Token) -> bool:
    """Whether a verb tells of now: `lives`, `is kept`, `has lived`, `can be found`."""
    helpers = [one for one in verb.children if one.dep_ in {"aux", "auxpass"}]
    return any(one.tag_ in {"VBZ", "VBP", "MD"} for one in (*helpers[:1], verb))


def _preposition_of(noun: Token) -> str:
    return next((one.lower_ for one in noun.rights if one.dep_ == "prep"), "")


def _does_something(noun: Token) -> bool:
    """Whether a noun is somebody `who` does something."""
    return any(
        child.dep_ == "relcl"
        and any(one.lower_ in {"who", "whom", "whose"} for one in child.subtree)
        for child in noun.children
    )


def _noun_phrase(noun: Token) -> Span:
    """Return a noun with the words before it that belong to it, without an article."""
    start = noun
    for child in noun.lefts:
        if child.dep_ in {"amod", "compound", "nmod", "nummod"} and child.i < start.i:
            start = child.left_edge if child.left_edge.i < start.i else child
    return Span(start.idx, noun.idx + len(noun.text))


def _of_part(head: Token) -> list[Token]:
    """Return what belongs to a name behind it: `of the Pale Hand`."""
    for preposition in (one for one in head.rights if one.lower_ == "of"):
        inner = next((one for one in preposition.children if one.dep_ == "pobj"), preposition)
        part = [*head.doc[preposition.i : inner.i + 1]]
        is_proper = all(one.pos_ in {"PROPN", "DET", "ADP", "ADJ"} for one in part)
        if is_proper and part[-1].pos_ == "PROPN" and part[-1].text[:1].isupper():
            return part
    return []


def _title(name: Token) -> str:
    """Return the words in capitals right before a name that belong to it."""
    first = name.i
    while first > 0:
        before = name.doc[first - 1]
        if before.dep_ != "compound" or before.head != name or not before.text.istitle():
            break
        first -= 1
    return name.doc[first : name.i].text


def _is_a_name(text: str, tokens: Sequence[Token]) -> bool:
    """Whether what a model takes for a name is written like one: most of what it takes for one in
    licences and manuals is not.
    """
    if len(text) < 2 or len(tokens) > 8 or _NO_NAME.search(text):
        return False
    words = [token for token in tokens if token.is_alpha or "-" in token.text or "’" in token.text]
    if not words or not any(token.pos_ == "PROPN" and len(token.text) > 1 for token in tokens):
        return False
    if not (text[0].isupper() and tokens[-1].text[:1].isupper()):
        return False
    # Capitals alone are a heading or an acronym; an acronym is one word.
    is_shouted = text.isupper() and (len(words) > 1 or len(text) > 6)
    return not is_shouted
