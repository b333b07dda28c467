"""The host's share of a hot call in instructions: what the Function's call executes, less the steps of its tape and
torch's part of new tensors. Counted by callgrind, so it is the same on a busy machine, and can be compared with
another's. The CPU that valgrind simulates has no AVX512."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch
from forms import all_forms
from harness import Report

CALLS = 500
SIZES = (2, 34)
PROGRAM = f"""
import os, subprocess, sys
import torch, tracehost

sys.path.insert(0, sys.argv[1])
from core import Holder, body, compiled
from forms import all_forms, loops

torch.set_num_threads(1)

def control(*what):
    subprocess.run(["callgrind_control", *what, str(os.getpid())], check=True, stdout=subprocess.DEVNULL)

def count(name, run):
    run(10)
    control("--instr=on")
    run({CALLS})
    control("--instr=off")
    control(f"--dump={{name}}")

def measure(name, function, args):
    function = tracehost.function(function)
    def run(n):
        for _ in range(n):
            function(*args)
    count(name, run)
    assert function.tracing_count() == 1

def keyed(size):
    # A body that reads a dict whose keys are functions, as the keys of a registry are.
    table = {{compiled("def made(): pass"): float(i) for i in range(size)}}
    return compiled("def made(x): return x * sum(table[key] for key in table)", table=table)

def named(size):
    # A body that reads so many globals, and what calls it in a loop at the level of their module, where each turn
    # stores the loop's variable beside them.
    names = [f"g{{i}}" for i in range(size)]
    values = "".join(f"{{name}} = {{i}}.0\\n" for i, name in enumerate(names))
    body = compiled(f"{{values}}def made(x): return x * ({{' + '.join(names)}})")
    variables = body.__globals__
    variables.update(f=tracehost.function(body), x=x)
    loop = compile("for i in range(n): f(x)", "loop", "exec")
    def at_module_level(n):
        variables["n"] = n
        exec(loop, variables)
    def in_a_function(n):
        f = variables["f"]
        for _ in range(n):
            f(x)
    count(f"names{{size}}_function", in_a_function)
    count(f"names{{size}}_module", at_module_level)

def tree_body(tree):
    return tree["a"][0] * tree["a"][1] + 1

with torch.no_grad():
    x, y = torch.rand(8, 8), torch.rand(8, 8)
    measure("hot", body, (x, y))
    for name, run in loops(all_forms(x, y), x, y).items():
        count(name.replace(" ", "_"), run)
    for size in {SIZES}:
        tensors = [torch.rand(8, 8) for _ in range(size)]
        names = [f"a{{i}}" for i in range(size)]
        many = compiled(f"def made({{', '.join(names)}}): return a0 * a1 + 1")
        measure(f"flat{{size}}", many, tensors)
        measure(f"nested{{size}}", tree_body, ({{"a": tensors}},))
        holder = Holder(tensors)
        used = ", ".join(f"holder.w{{i}}" for i in range(size))
        measure(f"keys{{size}}", keyed(size), (x,))
        named(size)
        measure(f"capture{{size}}", compiled(f"def made(): return torch.cat([{{used}}])", torch=torch, holder=holder), ())
"""


class Profile:
    """Calls and inclusive instructions from callgrind's own format, for each caller and callee."""

    def __init__(self, file: Path):
        names: dict[str, str] = {}
        self.edges: Counter[tuple[str, str]] = Counter()
        self.description = ""
        caller, callee, called = "", "", False
        for text in file.read_text(errors="replace").splitlines():
            key, _, value = text.partition("=")
            if key in ("fn", "cfn"):
                number, _, name = value.partition(" ")
                name = names.setdefault(number, name) if name else names[number]
                if key == "fn":
                    caller = name
                else:
                    callee = name
            elif key == "calls":
                called = True
            elif text.startswith("desc: Trigger:"):
                self.description = text
            elif called and re.match(r"[+\-*\d]", text):
                self.edges[caller, callee] += int(text.split()[1])
                called = False

    def inclusive(self, function: str, caller: str = "") -> float:
        """Instructions for each measured call, of the function and of all that it calls."""
        found = [n for (a, b), n in self.edges.items() if function in b and caller in a]
        return sum(found) / CALLS

    def steps(self) -> float:
        """What computes: kernels, machine code, ops."""
        return self.inclusive("Step::run(", "Tape::run_steps(")

    def tensors(self) -> float:
        """What torch takes to make the outputs, their memory included."""
        return self.inclusive("Tape::Fresh::make(")

    def share(self) -> float:
        return self.inclusive("::call_function(") - self.steps() - self.tensors()

    def binding(self) -> float:
        """What Python executes to find a method and to make and free the object that it is called by."""
        return self.inclusive("_PyObject_GetMethod") + self.inclusive("method_dealloc")


def collect() -> dict[str, Profile]:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program.py"
        program.write_text(PROGRAM)
        out = Path(folder) / "out"
        env = {k: v for k, v in os.environ.items() if not k.startswith("TRACEHOST_")}
        subprocess.run(
            [
                "valgrind",
                "--tool=callgrind",
                "--instr-atstart=no",
                f"--callgrind-out-file={out}",
                "--quiet",
            ]
            + [str(Path(sys.prefix) / "bin" / "python3"), str(program), str(Path(__file__).parent)],
            check=True,
            env=env,
            capture_output=True,
        )
        profiles = [Profile(file) for file in sorted(Path(folder).glob("out.*"))]
        return {p.description.split(None, 3)[-1]: p for p in profiles if p.description.split()}


def a_further(profiles: dict[str, Profile], kind: str, count: Callable[[Profile], float]) -> float:
    few, many = (count(profiles[f"{kind}{size}"]) for size in SIZES)
    return (many - few) / (SIZES[1] - SIZES[0])


def run(report: Report, _repeats: int) -> None:
    profiles = collect()
    hot = profiles["hot"]
    report.add("instructions of a hot call", hot.inclusive("::call_function("), "")
    report.add("of these in the tape's steps", hot.steps(), "")
    report.add("of these in torch, to make the output", hot.tensors(), "")
    report.add("the host's share", hot.share(), "", 3300)
    positional = profiles["positional"].share()
    for name, form in all_forms(torch.rand(8, 8), torch.rand(8, 8)).items():
        profile = profiles[name.replace(" ", "_")]
        more, binding = profile.share() - positional, profile.binding()
        note = f"{binding:.0f} of them Python's, to bind the method" if binding > 20 else ""
        if form.budget:
            report.add(f"a call {name}: more", more + binding, "", None, note)
    for kind in ("flat", "nested", "capture"):
        more = a_further(profiles, kind, Profile.share)
        torchs = a_further(profiles, kind, lambda profile: profile.inclusive("incref_pyobject"))
        note = f"{torchs:.0f} of them torch's, to hold the Python object"
        report.add(f"a further tensor, {kind}", more, "", None, note)
    for size in SIZES:
        at = {where: profiles[f"names{size}_{where}"].share() for where in ("function", "module")}
        more = at["module"] - at["function"]
        report.add(f"a loop at module level, {size} globals read: more", more, "")
    report.add("a further key of a dict", a_further(profiles, "keys", Profile.share), "", 10)
