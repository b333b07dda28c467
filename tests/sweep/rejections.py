"""The checked-in list of unsupported ops against what a sweep found: both ways."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).with_name("rejected.toml")


@dataclass(frozen=True)
class Rejection:
    """An op that is unsupported in at least one of its calls, and why that is right."""

    op: str
    dtypes: tuple[str, ...]  # ("*",): all that were swept
    error: str
    reason: str

    def covers(self, op: str, dtype: str) -> bool:
        return op == self.op and (self.dtypes == ("*",) or dtype in self.dtypes)


def listed() -> list[Rejection]:
    entries = tomllib.loads(LIST.read_text())["rejected"]
    return [Rejection(e["op"], tuple(e["dtypes"]), e["error"], e["reason"]) for e in entries]


def disagreements(verdicts: list) -> list[str]:
    """What the list should say and does not, or says and should not, of the pairs that were run."""
    known = listed()
    found = []
    for v in verdicts:
        entry = next((r for r in known if r.covers(v.op, v.dtype)), None)
        if v.state == "rejected" and (entry is None or entry.error != v.error):
            found.append(
                f"{v.op} {v.dtype} is rejected ({v.error}), and rejected.toml does not say so: {v.text}"
            )
        elif v.state == "equal" and entry is not None:
            found.append(
                f"{v.op} {v.dtype} is equal in all calls; rejected.toml says it is rejected"
            )
    return found
