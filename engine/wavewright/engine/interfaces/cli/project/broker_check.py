"""What `doctor` finds at the broker: whether a daemon could connect to it and write."""

from __future__ import annotations

from collections.abc import Iterator

import anyio

from wavewright.config.sections import DaemonSection
from wavewright.engine.interfaces.cli.common.broker import open_connection
from wavewright.engine.interfaces.cli.project.project_checks import DoctorFinding
from wavewright.engine.service.bus.connection import read_address
from wavewright.engine.service.bus.declaration import check_write_rights
from wavewright.engine.service.bus.faults import BusError
from wavewright.engine.service.bus.topology import topology_of


def access_findings(
    section: DaemonSection, url: str, *, is_offline: bool
) -> Iterator[DoctorFinding]:
    """Yield the findings on the broker at an address."""

    async def check_access() -> None:
        async with open_connection(url) as connection:
            routes = topology_of(section).routes()
            await check_write_rights(connection, routes, user=address.user, place=address.shown)

    try:
        address = read_address(url)
        if is_offline:
            yield DoctorFinding("broker", "ok", f"{address.shown} (not contacted)")
            return
        anyio.run(check_access)
    except BusError as error:
        yield DoctorFinding.of_error("broker", error)
        return
    detail = f"{address.shown} lets the daemon connect and write"
    if address.is_encrypted or address.is_loopback:
        yield DoctorFinding("broker", "ok", detail)
    else:
        hint = "use an address that starts with amqps://"
        yield DoctorFinding("broker", "note", f"{detail}, unencrypted", hint)
