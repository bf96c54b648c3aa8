"""What every job store promises, whatever keeps it.

A module of tests inherits `JobStoreContract` and gives it `daemons`: a way to open the same stores
as several daemons would, to let one of them die, and to let time pass for the outbox; see `Daemons`
of `job_examples`.
"""

from __future__ import annotations

from tests.engine.service.job_store.contract_of_answers import AnswersContract
from tests.engine.service.job_store.contract_of_attempts import AttemptsContract
from tests.engine.service.job_store.contract_of_claims import ClaimsContract
from tests.engine.service.job_store.contract_of_messages import MessagesContract
from tests.engine.service.job_store.contract_of_retention import RetentionContract


class JobStoreContract(
    ClaimsContract, AttemptsContract, AnswersContract, MessagesContract, RetentionContract
):
    """Inherit this, and give the fixture `daemons`."""
