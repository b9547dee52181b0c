"""What services that share a store promise to whoever has a key, whichever store it is."""

import asyncio
import random

from tests.chance import SEED
from tests.postgres.toxic import linked
from tests.valkey.machines import Machine, all_told, machines, requestor
from tests.waiting import until
from tests.world.stores import Store

HOUR = 3600.0


async def test_a_limit_is_one_limit(store: Store) -> None:
    """Two hundred requests to any of three services, which exchange after every three: none below
    a hundred and fifty is refused, and hardly more are let in."""
    team, random_, let_in = requestor(per_day=150), random.Random(SEED), 0
    async with machines(3, store.url) as made:
        for _ in range(67):
            for _ in range(3):
                let_in += random_.choice(made).let_in(team)
            for one in made:
                one.counts.tell()
            await made[0].rounds(1)
        assert 150 <= let_in <= 160
        await all_told(made)
        assert all(one.let_in(team) == 0 for one in made)


async def test_both_windows_are_shared(store: Store) -> None:
    """Of a key that the others have never seen they know the limits, and that of the day holds
    where that of the minute does not."""
    team, other = requestor(per_minute=10, per_day=4), requestor("other", per_minute=3)
    async with machines(2, store.url) as (one, two):
        assert (one.let_in(team, 3), one.let_in(other, 3)) == (3, 3)
        await all_told([one, two])
        assert (two.let_in(team, 3), two.let_in(other)) == (1, 0)


async def test_a_service_that_begins_knows_what_was_counted(store: Store) -> None:
    """From its first request on, also where those who counted are gone; nothing counts twice for
    whoever is restarted."""
    team = requestor(per_minute=5, per_day=100)
    async with machines(2, store.url) as (one, two):
        assert (one.let_in(team, 2), two.let_in(team, 1)) == (2, 1)
    async with machines(2, store.url) as (again, other):
        assert (again.used(team), other.used(team)) == (3, 3)
        assert again.let_in(team, 9) == 2
        await all_told([again, other])
        assert (again.used(team), other.used(team)) == (5, 5)
        await all_told([again, other])
        assert other.used(team) == 5


async def test_clocks_of_machines_may_differ(store: Store) -> None:
    """By hours: what counts is the store's."""
    team = requestor(per_minute=100, per_day=100)
    async with machines(2, store.url, ahead=(5 * HOUR, 123.4)) as (one, two):
        assert one.let_in(team, 40) == 40
        await all_told([one, two])
        assert two.used(team) == 40
        async with machines(1, store.url, ahead=(77 * HOUR,)) as (late,):
            assert late.used(team) == 40
            assert late.let_in(team, 100) == 60


async def test_away_the_local_limits_go_on_and_are_settled_after(store: Store) -> None:
    """While the store is gone each lets in by itself; when it is back both know of all that."""
    team = requestor(per_day=50)
    async with machines(2, store.url) as (one, two):
        assert one.let_in(team, 3) == 3
        await all_told([one, two])
        await store.kill()
        for each in (one, two):
            await until(lambda each=each: not each.exchange.is_up)  # type: ignore[misc]
            assert each.let_in(team, 5) == 5
            each.counts.tell()
        assert two.let_in(team, 50) == 50 - 3 - 5
        await store.start()
        await all_told([one, two])
        await until(lambda: one.used(team) == 50)
        assert (one.let_in(team), two.let_in(team)) == (0, 0)


async def test_a_store_that_was_emptied_is_filled_again(store: Store) -> None:
    """By those who have counted: one that begins later knows of it."""
    team = requestor(per_day=10)
    async with machines(2, store.url) as (one, two):
        assert (one.let_in(team, 2), two.let_in(team, 3)) == (2, 3)
        await all_told([one, two])
        await store.kill()
        store.forget()
        await store.start()
        await all_told([one, two])
        assert (one.used(team), two.used(team)) == (5, 5)
        async with machines(1, store.url) as (late,):
            assert late.used(team) == 5


async def test_a_day_outlives_a_restart_of_everything(store: Store) -> None:
    """Of the store, and of all services."""
    team = requestor(per_day=10)
    async with machines(1, store.url) as (one,):
        assert one.let_in(team, 7) == 7
    await store.shut_down()
    await store.start()
    async with machines(1, store.url) as (again,):
        assert again.let_in(team, 9) == 3


async def test_a_store_that_hangs_delays_nobody(store: Store) -> None:
    """It is away as soon as it has not answered in time, and there again when it goes on."""
    team = requestor(per_minute=100)
    async with machines(2, store.url) as (one, two):
        store.hang()
        late = Machine(store.url)
        try:
            one.counts.tell()
            assert one.let_in(team, 10) == 10
            await until(lambda: not one.exchange.is_up and not two.exchange.is_up)
            assert one.let_in(team, 10) == 10
            # Who begins meanwhile begins without it.
            await late.begin()
            assert late.let_in(team) == 1
        finally:
            store.go_on()
        try:
            await all_told([one, two, late])
            assert [each.used(team) for each in (one, two, late)] == [21, 21, 21]
        finally:
            await late.end()


async def test_what_may_have_arrived_counts_once(store: Store) -> None:
    """Nothing comes back over the network while one service tells: it tells again, and the others
    count it once, those that begin meanwhile too."""
    team = requestor(per_day=100)
    async with linked(store.port) as network:
        far = f"redis://127.0.0.1:{network.port}"
        async with machines(1, store.url) as (two,), machines(1, far) as (one,):
            for _ in range(5):
                assert one.let_in(team, 4) == 4
                one.counts.tell()
                await asyncio.sleep(0)
                network.drop()
                await until(lambda: not one.exchange.is_up)
                network.mend()
                async with machines(1, store.url) as (late,):
                    await all_told([one, two, late])
                    assert two.used(team) == late.used(team) == one.used(team)
            assert two.used(team) == 20


async def test_deployments_that_share_a_store_share_no_limit(store: Store) -> None:
    """And every key of theirs begins with their prefix, expires, and names no more than an id."""
    team = requestor(per_minute=5, per_day=5)
    async with machines(1, store.url, "one") as (one,), machines(1, store.url, "two") as (two,):
        assert one.let_in(team, 5) == 5
        await all_told([one, two])
        assert two.let_in(team, 9) == 5
        await all_told([one, two])
        keys = await store.keys()
        assert {name.partition(":")[0] for name in keys} == {"{one}", "{two}"}
        assert all(0 < life <= 86_400 + 3600 for life in keys.values())
