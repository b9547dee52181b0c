"""The recipe for partitions in docs/operating.md works, and the ledger goes on after it."""

import asyncio
import re
from pathlib import Path

from content_gateway.model.pins import NO_LABEL, Removal, Search
from tests.ledger.stands import PostgresStand
from tests.ledgers import Clock, cid
from tests.world import postgres

PAGE = Path(__file__).parents[2] / "docs" / "operating.md"


async def test_pins_are_partitioned_as_the_page_says() -> None:
    """What was held is held, counts and pages are right, and pins come and go."""
    found = re.search(r"```sql partitions\.sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    clock, stand = Clock(), PostgresStand(postgres.shared("15"))
    held = [(f"who {number % 9}", number) for number in range(60)]
    async with stand.ledger(clock) as ledger:
        adding = (ledger.pins.add(who, cid(n), str(cid(n)), NO_LABEL) for who, n in held)
        await asyncio.gather(*adding)
    await stand.run(found[1])
    async with stand.ledger(clock) as ledger:
        for who, number in held:
            assert await ledger.pins.holds(who, cid(number))
            assert await ledger.pins.add(who, cid(number), "x", NO_LABEL) is None
        assert await ledger.pins.remove("who 1", cid(1)) is Removal.RELEASED
        assert await ledger.pins.add("anna", cid(1), "x", NO_LABEL) is not None
        assert await ledger.pins.search("who 1", Search(), lambda page: page.count) == 6
    ((partitions,),) = await stand.run("SELECT count(*) FROM pg_inherits")
    assert partitions >= 32
