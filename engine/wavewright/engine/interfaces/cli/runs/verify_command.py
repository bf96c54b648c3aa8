"""`wavewright verify` and `receipt`: whether a journal is what was written, and proof of a run."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from wavewright.config import Settings, exit_codes
from wavewright.engine.interfaces.cli.common.arguments import (
    has_journal,
    open_journal,
    project_settings,
    require_journal,
)
from wavewright.engine.interfaces.cli.common.named_runs import find_named_run
from wavewright.engine.interfaces.cli.common.output import (
    CommandError,
    instant_text,
    print_json,
    print_lines,
    unwritable,
    write_file,
)
from wavewright.engine.run.package import run_folder
from wavewright.engine.run.receipts import (
    FORMAT,
    RunReceipt,
    SignatureVerdict,
    altered_fields,
    make_receipt,
    read_receipt,
)
from wavewright.executor import RunNotFound
from wavewright.executor.store.journal import RunHead
from wavewright.executor.store.verification import (
    Breach,
    BreachKind,
    VerifiedRun,
    find_verifiable_run,
    verify_run,
)
from wavewright.planner import Json, JsonObject, RunId
from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.reviewer import Package, PackageError, read_package
from wavewright.reviewer.package.builder import PACKAGE_NAME

_WORDS: Final[dict[BreachKind, str]] = {
    "text": "its text is not what was written",
    "column": "a column of it says something else than its text",
    "row": "the run's row says something else than its events",
    "head": "it is not the event that was the last one here: the events were written anew",
    "missing": "it is missing",
    "tail": "it and all after it are missing",
    "no_head": "the head of the run is missing",
}


def verify(about: str | None, *, key: Path | None, output_format: str) -> int:
    """Verify a run of the journal, or a receipt or a package in a file.

    Args:
        about: A run's id or its beginning, or a file; the newest run where it is absent.
        key: The public key that a receipt must be signed with; that of the settings where absent.
        output_format: `text` or `json`.

    Raises:
        CommandError: the file is neither a receipt nor a package, or a key is missing.
    """
    settings = project_settings()
    file = None if about is None else Path(about)
    if file is None or not file.is_file():
        return anyio.run(_verify_run, settings, about, output_format)
    document = _read_file(file)
    if document.get("format") == FORMAT:
        receipt = read_receipt(file.read_bytes(), str(file))
        return anyio.run(_verify_receipt, settings, receipt, key, output_format)
    package = read_package(file.read_bytes(), str(file))
    return anyio.run(_verify_package, settings, package, str(file), output_format)


def write_receipt(run: str | None, *, out: Path | None, key: Path | None) -> int:
    """Print or write the receipt of a run, signed where there is a key.

    Raises:
        CommandError: the file cannot be written.
    """
    settings = project_settings()
    receipt = anyio.run(_make_receipt, settings, run)
    signing_key = key or settings.receipts.private_key
    if signing_key is not None:
        # Imported here and below: only signatures need the extra `receipts`.
        from wavewright.engine.run.signatures import sign_receipt

        receipt = sign_receipt(receipt, signing_key)
    if out is None:
        sys.stdout.write(receipt.text)
        return exit_codes.OK
    write_file(out, receipt.text)
    how = "unsigned" if receipt.signature is None else f"signed with {receipt.signature.key}"
    sys.stdout.write(f"{out}: receipt of run {receipt.run}, {how}\n")
    return exit_codes.OK


async def _make_receipt(settings: Settings, run: str | None) -> RunReceipt:
    async with open_journal(require_journal(settings)) as journal:
        known = await find_named_run(journal, run)
        verified = await journal.read(partial(verify_run, run=known))
        if verified.breach is not None:
            raise CommandError(
                f"no receipt of run {known}: {_breach_text(verified.breach)}",
                hint=f"see `wavewright verify {known}`",
            )
        return make_receipt(await journal.load(known), verified.head)


async def _verify_run(settings: Settings, prefix: str | None, output_format: str) -> int:
    async with open_journal(require_journal(settings)) as journal:
        try:
            run = await find_named_run(journal, prefix)
        except RunNotFound:
            if prefix is None:
                raise
            # It may have been removed; its head is kept.
            run = await journal.read(partial(find_verifiable_run, prefix=prefix))
        verified = await journal.read(partial(verify_run, run=run))
    heads = [("its package", head) for head in (_head_of_package(settings, run),) if head]
    report = _Report(verified, _first_breach(verified, heads))
    return report.print(output_format)


async def _verify_receipt(
    settings: Settings, receipt: RunReceipt, key: Path | None, output_format: str
) -> int:
    known_key = key or settings.receipts.public_key or settings.receipts.private_key
    signature: SignatureVerdict | None = "unsigned" if receipt.signature is None else None
    if known_key is not None:
        from wavewright.engine.run.signatures import check_signature

        signature = check_signature(receipt, known_key)
    if signature is None:
        raise CommandError(
            f"the receipt is signed with {receipt.signature and receipt.signature.key}, and no key is known",
            hint="name the public key with --key, or in the settings as `receipts: {public_key: …}`",
        )
    verified = await _verified(settings, RunId(receipt.run))
    heads = [("the receipt", receipt.head)]
    breach = None if verified is None else _first_breach(verified, heads)
    altered: tuple[str, ...] = ()
    if verified is not None and verified.removed is None and breach is None:
        async with open_journal(settings) as journal:
            altered = altered_fields(receipt, await journal.load(RunId(receipt.run)))
    must_be_signed = key is not None
    report = _Report(verified, breach, receipt, signature, altered, must_be_signed=must_be_signed)
    return report.print(output_format)


async def _verify_package(
    settings: Settings, package: Package, file: str, output_format: str
) -> int:
    if package.journal_head is None:
        raise CommandError(f"{file} names no head of a journal: it was not published by a run")
    verified = await _verified(settings, RunId(package.run))
    if verified is None:
        raise CommandError(
            f"the journal has no run {package.run}",
            hint="verify the package where its journal is; a receipt can be verified without one",
        )
    heads = [("the package", package.journal_head)]
    return _Report(verified, _first_breach(verified, heads)).print(output_format)


async def _verified(settings: Settings, run: RunId) -> VerifiedRun | None:
    """Return what the journal shows of a run; None where there is no journal or no such run."""
    if not has_journal(settings):
        return None
    async with open_journal(settings) as journal:
        try:
            return await journal.read(partial(verify_run, run=run))
        except RunNotFound:
            return None


def _head_of_package(settings: Settings, run: RunId) -> RunHead | None:
    """Return the head that the package in the run's folder names, if there is one."""
    try:
        file = run_folder(settings.output_dir, run) / PACKAGE_NAME
        return read_package(file.read_bytes(), str(file)).journal_head
    except (OSError, PackageError):
        return None


def _read_file(file: Path) -> JsonObject:
    try:
        document: Json = json.loads(file.read_bytes())
    except OSError as error:
        raise unwritable(file, error, "name a file that can be read") from error
    except ValueError as error:
        raise CommandError(f"{file} is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise CommandError(f"{file} is neither a receipt nor a package")
    return document


def _first_breach(
    verified: VerifiedRun, heads: list[tuple[str, RunHead]]
) -> tuple[Breach, str] | None:
    """Return the first breach, and where the head is named that shows it."""
    if verified.breach is not None:
        return verified.breach, ""
    for place, head in heads:
        if (breach := verified.compared_with(head)) is not None:
            return breach, place
    return None


def _breach_text(breach: Breach, place: str = "") -> str:
    """Return what is wrong, and at which event."""
    shown = f" (compared with {place})" if place else ""
    return f"{breach.verdict} at event {breach.event}: {_WORDS[breach.kind]}{shown}"


@dataclass(frozen=True, slots=True)
class _Report:
    """What was found out about a run."""

    verified: VerifiedRun | None
    """None where the journal is not at hand."""
    breach: tuple[Breach, str] | None
    receipt: RunReceipt | None = None
    signature: SignatureVerdict | None = None
    altered: tuple[str, ...] = ()
    """Fields of the receipt that say something else than the journal."""
    must_be_signed: bool = False
    """Whether a key was named, which somebody may have avoided by removing the signature."""

    @property
    def exit_code(self) -> int:
        """0 where all that could be asked is as it was, and something could be asked."""
        is_well_signed = self.signature == "valid"
        if self.signature == "unsigned":
            # Its fields are held against the events, and those of a run that was removed are gone.
            has_events = self.verified is not None and self.verified.removed is None
            is_well_signed = has_events and not self.must_be_signed
        is_proven = self.receipt is None or is_well_signed
        is_as_it_was = self.breach is None and not self.altered
        return exit_codes.OK if is_proven and is_as_it_was else exit_codes.NEGATIVE

    def print(self, output_format: str) -> int:
        """Print it and return the exit code."""
        if output_format == "json":
            print_json(self._as_json())
        else:
            print_lines(self._lines())
        return self.exit_code

    def _as_json(self) -> dict[str, object]:
        found: dict[str, object] = {}
        if self.receipt is not None:
            about = {"run": self.receipt.run, "signature": self.signature}
            found["receipt"] = about | ({"altered": [*self.altered]} if self.altered else {})
        if self.verified is not None:
            breach = None if self.breach is None else self.breach[0]
            found |= {
                "run": self.verified.run,
                "verdict": "intact" if breach is None else breach.verdict,
                "event": None if breach is None else breach.event,
                "kind": None if breach is None else breach.kind,
                "compared_with": None if self.breach is None else self.breach[1] or None,
                "head": {
                    "events": self.verified.head.events,
                    "hash": self.verified.head.hash,
                },
                "removed": self.verified.removed,
            }
        return found

    def _lines(self) -> list[str]:
        lines = list[str]()
        if self.receipt is not None:
            lines.append(f"receipt of run {self.receipt.run}: {self._signature_text()}")
        if self.verified is None:
            lines.append("the journal was not compared: it has no such run")
            return lines
        run, head = self.verified.run, self.verified.head
        events = counted(head.events, "event")
        if self.breach is not None:
            return [*lines, f"run {run}: {_breach_text(*self.breach)}"]
        if self.verified.removed is not None:
            when = instant_text(self.verified.removed)
            return [
                *lines,
                f"run {run}: removed {when}; its head was sha256:{head.hash} ({events})",
            ]
        if self.altered:
            lines.append(f"the journal says something else of its {', '.join(self.altered)}")
        return [*lines, f"run {run}: intact, {events}, head sha256:{head.hash}"]

    def _signature_text(self) -> str:
        assert self.receipt is not None
        match self.signature:
            case "valid":
                return f"signature valid, {counted(len(self.receipt.approvals), 'approval')}"
            case "invalid":
                return "signature not valid: the receipt is not what was signed"
            case "other_key":
                return "signed with another key"
            case _:
                return "unsigned: it shows nothing by itself"
