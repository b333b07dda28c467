"""Which Python a wheel is built for, and which torch it asks for. Read by scikit-build-core, and by CMake as a program.

pip builds where installed packages are hidden. This build has to see one: it is made for the torch that it will run
with. As a build requirement that torch would be downloaded a second time, gigabytes, and perhaps of another version.
"""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

QUESTION = Path(__file__).with_name("describe_python.py")


def interpreters() -> list[str]:
    """Those that may have torch. pip hides packages by variables, which `-I` ignores; uv and build by another environment."""
    named = os.environ.get("TRACEHOST_PYTHON")
    if named:
        return [os.path.abspath(f"{named}/bin/python" if os.path.isdir(named) else named)]
    active = os.environ.get("VIRTUAL_ENV", "") + "/bin/python"
    return [sys.executable, *([active] if os.access(active, os.X_OK) else [])]


def facts(python: str) -> dict[str, str]:
    try:
        done = subprocess.run([python, "-I", QUESTION], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        trouble = getattr(error, "stderr", None) or str(error)
        raise SystemExit(
            f"tracehost: {python} can't be asked for its torch: {trouble.strip()}"
        ) from None
    return json.loads(done.stdout)


def find(supported: str) -> tuple[str, dict[str, str]]:
    """The interpreter to build for and what describe_python.py says of it; ends with one line where there is none."""
    running = "%d.%d" % sys.version_info[:2]
    asked = [(python, facts(python)) for python in interpreters()]
    for python, found in asked:
        if found["TORCH_DIR"] and found["SHORT_VERSION"] == running:
            return python, found
    python, found = asked[0]
    if found["SHORT_VERSION"] != running:
        raise SystemExit(
            f"tracehost: {python} is Python {found['VERSION']}, but the wheel is built by Python {running}: "
            f"use one Python for both"
        )
    raise SystemExit(
        f"tracehost: {python} has no torch, and tracehost is built for the torch that it will run with: install "
        f"'{supported}' there first, or name the environment that has it, TRACEHOST_PYTHON=<venv>/bin/python"
    )


class Torch:
    """Provider of [[tool.dynamic-metadata]]: the project's requirements, for a wheel with the one minor version of torch."""

    def build_state(self, build_state: str) -> None:
        self.state = build_state

    def dynamic_wheel(self, settings) -> dict[str, bool]:
        return {"dependencies": True}

    def dynamic_metadata(self, settings, project) -> dict[str, list[str]]:
        from packaging.requirements import Requirement  # not there where CMake runs this
        from packaging.specifiers import SpecifierSet

        wanted = [Requirement(text) for text in settings["dependencies"]]
        if self.state != "sdist":
            running = platform.python_version()
            if not SpecifierSet(project["requires-python"]).contains(running):
                raise SystemExit(
                    f"tracehost: {sys.executable} is Python {running}, which is not supported: "
                    f"use one of {project['requires-python']}"
                )
            ((torch, text),) = [
                p for p in zip(wanted, settings["dependencies"]) if p[0].name == "torch"
            ]
            python, found = find(text)
            version = found["TORCH_VERSION"].partition("+")[0]
            if not torch.specifier.contains(version, prereleases=True):
                raise SystemExit(
                    f"tracehost: {python} has torch {version}, which is not supported: install '{text}' there first"
                )
            torch.specifier = SpecifierSet("==%s.%s.*" % tuple(version.split(".")[:2]))
        return {"dependencies": [str(one) for one in wanted]}


if __name__ == "__main__":
    print(find("torch")[0])
