"""Who does something, and whether that is proven or only claimed.

An *identity* is written as one text wherever there is one column or one option for it: the name
alone where it is claimed, and the name with how it was proven otherwise. Nobody can claim a name
that reads as a proven one. Events of a journal have both apart, as `by` and `proof`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Self, TypeAlias, get_args

from wavewright.config.value_types import PROVEN_BY, valid_person_name

Proof: TypeAlias = Literal["claimed", "token", "proxy"]
"""How it is known who somebody is: by the name that was typed, by a token of their own, or by a
proxy that has logged them in.
"""
_PROVEN: Final[tuple[Proof, ...]] = tuple(proof for proof in get_args(Proof) if proof != "claimed")


@dataclass(frozen=True, slots=True)
class Identity:
    """A person, and how it is known that it is this one."""

    name: str
    proof: Proof = "claimed"

    def __str__(self) -> str:
        """Return it as one text."""
        return self.name if self.proof == "claimed" else f"{self.name}{PROVEN_BY}{self.proof})"

    @classmethod
    def parse(cls, text: str, proof: object = None) -> Self:
        """Return the identity of a text; of an event, whose proof is a field of its own, with it."""
        for known in _PROVEN:
            if proof == known:
                return cls(text, known)
            mark = f"{PROVEN_BY}{known})"
            if text.endswith(mark):
                return cls(text.removesuffix(mark), known)
        return cls(text)

    @property
    def fields(self) -> dict[str, str]:
        """The fields `by` and `proof` of an event."""
        return {"by": self.name, "proof": self.proof}


def valid_identity(text: str) -> str:
    """Return the text of an identity as it is.

    Raises:
        ValueError: its name is empty, too long, or has characters that do not show.
    """
    valid_person_name(Identity.parse(text).name)
    return text


def claimed(name: str) -> str:
    """Return the name of somebody who has proven nothing, which cannot read as a proven one."""
    return name.replace(PROVEN_BY, " (claims to be proven by ")
