"""How pages are read: what is run, what is compared, what is refused."""

import subprocess

import pytest

from tests.docs.blocks import blocks, is_as_told, outputs, script, steps

PAGE = """
```sh
echo one
```

```text
one
```

```console
$ echo two
two
$ true
```

Prose.

```text
for reading
```

```toml a.toml
a = 1
```

```sh
cat a.toml
```
"""


def test_commands_are_run_in_order_and_compared(tmp_path: object) -> None:
    """What stands behind commands is what they print; what stands behind prose is for reading."""
    found = steps(PAGE)
    assert [step.printed for step in found] == ["one\n", "two\n", "", None, None]
    done = subprocess.run(
        ["bash"], input=script(found), cwd=str(tmp_path), capture_output=True, text=True, check=True
    )
    assert [said.strip() for said in outputs(done.stdout)] == ["one", "two", "", "", "a = 1"]


def test_a_command_that_fails_ends_the_page() -> None:
    """Nothing behind it is run."""
    found = steps("```sh\nfalse\n```\n```sh\necho on\n```\n")
    done = subprocess.run(
        ["bash"], input=script(found), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "on" not in done.stdout.split()


@pytest.mark.parametrize(
    ("printed", "told", "is_so"),
    [
        ("one", "one", True),
        ("one", "two", False),
        ("one and more", "one", False),
        ("one and more", "one...", True),
        ("at 2026-11-23T10:00:00.000Z", "at 2020-01-01T00:00:00Z", True),
        ("http://127.0.0.1:41234/x", "http://127.0.0.1:8080/x", True),
        ("a.c", "a...", True),
        ("abc", "a.c", False),
    ],
)
def test_what_is_printed_is_what_was_told(printed: str, told: str, is_so: bool) -> None:
    """But for moments and ports; `...` stands for anything."""
    assert is_as_told(printed, told) == is_so


@pytest.mark.parametrize(
    "page",
    [
        "text\n\n    make run\n",
        "```sh\necho\n",
        "```\necho\n```\n",
        "```bash\necho\n```\n",
        "~~~sh\necho\n~~~\n",
        "```sh a b\necho\n```\n",
    ],
)
def test_code_that_would_not_be_run_is_refused(page: str) -> None:
    """Indented, behind a fence that nobody closed, or in a language that is not run."""
    with pytest.raises(ValueError, match="fence"):
        blocks(page)
