"""Root and the service's user on the same folder: neither is in the other's way."""

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from content_gateway.cli import lockfile
from content_gateway.cli.common import run
from content_gateway.cli.which_ledger import has_ledger
from content_gateway.errors import GatewayError
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.settings.model import Settings

USER = 65_534  # nobody
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def use(settings: Settings) -> None:
    """Open the ledger, write to it, and be its service for a moment."""

    async def write() -> None:
        async with LedgerDatabase(settings.ledger_path) as database:
            await database.check_writable()

    run(write())
    with lockfile.held(settings, has_demo=False):
        assert lockfile.is_held(settings)


def raise_unless(is_true: bool) -> None:
    if not is_true:
        raise GatewayError("it is not")


def as_user(work: Callable[[], None]) -> str:
    """What *work* raises as the service's user, in a process of its own; "" for nothing."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def child() -> None:
        os.setgroups([])
        os.setgid(USER)
        os.setuid(USER)
        try:
            work()
        except GatewayError as wrong:
            theirs.send(wrong.detail)
        else:
            theirs.send("")

    process = context.Process(target=child)
    process.start()
    assert ours.poll(60)
    said: str = ours.recv()
    process.join(60)
    return said


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One that its user can come to: pytest's own are for their owner alone.

    What a ledger needs of the program is read before: the checkout may be in root's home."""
    use(Settings(data_dir=tmp_path / "before"))
    for parent in tmp_path.parents:
        if parent.stat().st_uid == 0 and "pytest" in str(parent):
            parent.chmod(0o755)
    tmp_path.chmod(0o755)
    made = tmp_path / "data"
    made.mkdir(mode=0o700)
    return made


def test_what_root_leaves_belongs_to_the_owner_of_the_folder(folder: Path) -> None:
    """Root runs a command first, then the service starts as its own user."""
    os.chown(folder, USER, USER)
    settings = Settings(data_dir=folder)
    use(settings)
    assert {path.stat().st_uid for path in folder.iterdir()} == {USER}
    assert as_user(lambda: use(settings)) == ""


def test_who_may_not_use_a_ledger_is_told_whose_it_is(folder: Path) -> None:
    """The folder, or a file in it; those who only read are told so too, and not that there is
    none."""
    settings = Settings(data_dir=folder)
    use(settings)
    said = as_user(lambda: use(settings))
    assert f"{folder} belongs to root, and this runs as nobody: run it as root" in said
    os.chown(folder, USER, USER)
    said = as_user(lambda: use(settings))
    assert f"{settings.ledger_path} belongs to root" in said
    assert (
        as_user(lambda: raise_unless(has_ledger(settings))) == said.partition("data_dir: ")[2] + "."
    )


def test_who_looks_where_nobody_may_write_is_told_that_there_is_none(folder: Path) -> None:
    """To read nothing needs no rights."""
    folder.chmod(0o755)
    assert as_user(lambda: raise_unless(not has_ledger(Settings(data_dir=folder / "a")))) == ""
