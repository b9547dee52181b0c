"""The fenced blocks of a page of Markdown, and the script that runs its commands as a reader does.

A block `sh` is commands; `console` is commands behind `$` with what they print; `json` or `text`
right behind commands is what those print. A block with a file's name behind its language is that
file. What else there may be is for reading only (READ); any other language is refused, so that no
command escapes by being called `bash` or nothing."""

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

FENCE = re.compile(r"```(\w+)(?: (\S+))?")
RUN = {"sh", "console"}
READ = {"text", "json", "mermaid"}
# These stay in the foreground until somebody ends them: a reader opens another terminal.
STAYING = ("make run", "content-gateway serve", "content-gateway dev")
_END = "--- end of step"
# What differs from run to run.
_MASKS = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "MOMENT"),
    (re.compile(r"http://127\.0\.0\.1:\d+"), "URL"),
)
_PRELUDE = f"""
set -euo pipefail
stay() {{
    if [[ -n ${{staying-}} ]]; then kill "$staying"; wait "$staying" || true; fi
    "$@" >>stay.log 2>&1 & staying=$!
    for _ in {{1..600}}; do
        curl -sf "http://127.0.0.1:$PORT/version" >/dev/null && return
        kill -0 "$staying" || {{ cat stay.log >&2; exit 1; }}
        sleep 0.1
    done
    exit 1
}}
end() {{ echo; echo '{_END}'; }}
"""


@dataclass
class Block:
    """One fenced block; *line* is where it begins, *file* the name that it is to be kept under."""

    line: int
    language: str
    file: str | None
    lines: list[str] = field(default_factory=list)
    follows: bool = False  # with nothing but an empty line between it and the block before

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


@dataclass
class Step:
    """Commands that are run, and what the page says they print (None: nothing is said)."""

    line: int
    commands: str
    printed: str | None = None


def blocks(page: str) -> list[Block]:
    """The fenced blocks of *page*.

    ValueError for code that is not fenced, a fence that does not say what it holds, and one that
    is left open."""
    found: list[Block] = []
    current: Block | None = None
    before = prose = ""
    for number, line in enumerate(page.splitlines(), 1):
        if current is not None:
            if line.strip() == "```":
                current, prose = None, ""
            else:
                current.lines.append(line)
        elif line.lstrip().startswith(("```", "~~~")):
            current = _opened(line.strip(), number, follows=not prose.strip())
            found.append(current)
        elif line.startswith("    ") and not before.strip():
            raise ValueError(f"line {number}: a block of code needs a fence with its language")
        else:
            prose += line
        before = line
    if current is not None:
        raise ValueError(f"line {current.line}: the fence is not closed")
    return found


def _opened(fence: str, number: int, *, follows: bool) -> Block:
    match = FENCE.fullmatch(fence)
    if match is None or (match[2] is None and match[1] not in RUN | READ):
        raise ValueError(f"line {number}: a fence says `sh`, `console`, what is read, or a file")
    return Block(number, match[1], match[2], follows=follows)


def steps(page: str) -> list[Step]:
    """What a reader does on *page*, in order: commands to run, and files to write."""
    found: list[Step] = []
    previous: Block | None = None
    for block in blocks(page):
        if block.file is not None:
            found.append(Step(block.line, _writing(block)))
        elif block.language == "sh":
            found.append(Step(block.line, block.text))
        elif block.language == "console":
            found += _dialogue(block)
        elif block.follows and previous and previous.language == "sh":
            found[-1].printed = block.text
        previous = block
    return found


def script(found: list[Step]) -> str:
    """The bash script of all steps, which says where each ends."""
    parts = [_PRELUDE]
    for step in found:
        for line in step.commands.splitlines():
            bare = re.sub(r"^(\w+=\S+ )+", "", line)
            stays = bare.startswith(STAYING)
            parts.append(f"stay env {line}" if stays else line)
        parts.append("end")
    return "\n".join(parts)


def outputs(said: str) -> list[str]:
    """What each step printed."""
    return said.split(f"\n{_END}\n")[:-1]


def is_as_told(printed: str, told: str) -> bool:
    """Whether *printed* is what the page has *told*; `...` stands for anything."""
    pieces = [re.escape(piece) for piece in masked(told).split("...")]
    return re.fullmatch(".*".join(pieces), masked(printed), re.DOTALL) is not None


def masked(text: str) -> str:
    """*text* without what differs from run to run."""
    for pattern, stand_in in _MASKS:
        text = pattern.sub(stand_in, text)
    return text.strip()


def _writing(block: Block) -> str:
    assert block.file is not None
    name = shlex.quote(str(Path(block.file)))
    mode = f"chmod +x {name}\n" if block.lines[0].startswith("#!") else ""
    return f"cat >{name} <<'END OF FILE'\n{block.text}END OF FILE\n{mode}"


def _dialogue(block: Block) -> list[Step]:
    found: list[Step] = []
    for number, line in enumerate(block.lines, block.line + 1):
        if line.startswith("$ "):
            found.append(Step(number, line[2:], printed=""))
        elif line.strip() and found:
            found[-1].printed = (found[-1].printed or "") + line + "\n"
    return found
