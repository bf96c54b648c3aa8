"""What `wavewright doctor` finds out about the daemon's broker: whether the user of the settings may connect and write.

Nothing is made or delivered at the broker: a queue that is not there yet is made by the daemon.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import anyio

from wavewright.config.extras import install_hint, is_installed
from wavewright.engine.cli.findings import DoctorFinding

if TYPE_CHECKING:
    from wavewright.config.settings import Settings


def broker_findings(settings: Settings, *, is_offline: bool) -> Iterator[DoctorFinding]:
    """Yield what is to be said of the broker; nothing where the settings name none."""
    section = settings.daemon
    url = section.amqp_url
    if url is None:
        return
    if not is_installed("daemon"):
        yield DoctorFinding("broker", "fault", "the extra 'daemon' is not installed", install_hint("daemon"))
        return
    # Most projects have no broker, and what connects to one takes a third of a second to load.
    from wavewright.engine.bus.address import read_address
    from wavewright.engine.bus.errors import BusError
    from wavewright.engine.bus.rights import check_write_rights
    from wavewright.engine.bus.topology import topology_of
    from wavewright.engine.cli.broker import open_connection

    async def look() -> None:
        async with open_connection(url) as connection:
            routes = topology_of(section).routes()
            await check_write_rights(connection, routes, user=address.user, place=address.shown)

    try:
        address = read_address(url)
        if is_offline:
            yield DoctorFinding("broker", "ok", f"{address.shown} (not asked)")
            return
        anyio.run(look)
    except BusError as error:
        where = f"{error.place}: " if error.place else ""
        yield DoctorFinding("broker", "fault", f"{where}{error.message}", error.hint)
        return
    if address.is_encrypted or address.is_loopback:
        yield DoctorFinding("broker", "ok", f"{address.shown} lets the daemon in and lets it write")
    else:
        yield DoctorFinding(
            "broker",
            "note",
            f"{address.shown} lets the daemon in and lets it write, unencrypted",
            "begin the address with amqps://",
        )
