"""tracehost kernel: an entry in Jupyter's list of kernels that starts our binary."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

from ..errors import CommandError, UsageError, need
from ..options import only
from .document import is_ours

FILE = "kernel.json"


def main(options: Namespace, rest: list[str]) -> int:
    actions = {"install": _install, "uninstall": _uninstall, "list": _list}
    takes = "'kernel' takes install, uninstall or list"
    action = only(rest, takes)
    if action not in actions:
        raise UsageError(f"{takes}, got '{action}'")
    need("ipykernel", "jupyter_client:jupyter-client", what=f"tracehost kernel {action}")
    if options.sys_prefix + options.user + (options.prefix is not None) > 1:
        raise UsageError("give one of --sys-prefix, --user and --prefix")
    if not re.fullmatch(r"[A-Za-z0-9._-]+", options.name):
        raise UsageError(f"--name takes letters, digits and . _ -, got '{options.name}'")
    return actions[action](options)


def _folder(options: Namespace) -> Path:
    """Where the specification of that name belongs."""
    from jupyter_core.paths import jupyter_data_dir

    if options.prefix is not None:
        data = Path(options.prefix).resolve() / "share" / "jupyter"
    elif options.user or (sys.prefix == sys.base_prefix and not options.sys_prefix):
        data = Path(jupyter_data_dir())
    else:
        data = Path(sys.prefix) / "share" / "jupyter"
    return data / "kernels" / options.name.lower()


def _install(options: Namespace) -> int:
    from .kernel_engine import ARGV, ENVIRONMENT

    if re.fullmatch(r"python\d*", options.name.lower()):
        raise UsageError(f"'{options.name}' is plain Python's kernel: choose another --name")
    folder = _folder(options)
    if folder.exists() and not is_ours(folder / FILE):
        raise UsageError(f"{folder} is another kernel: choose another --name")
    specification = {
        "argv": ARGV,
        "display_name": options.display_name or "Python (tracehost)",
        "language": "python",
        "env": ENVIRONMENT,
        "metadata": {"debugger": True, "tracehost": {"prefix": sys.prefix}},
    }
    try:
        _replace(folder, json.dumps(specification, indent=1) + "\n")
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}") from None
    sys.stdout.write(f"installed {folder}\n")
    return 0


def _replace(folder: Path, specification: str) -> None:
    """Beside it first, so that no half of a kernel is ever listed."""
    from ipykernel.kernelspec import RESOURCES

    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".tracehost", dir=folder.parent))
    try:
        (made / FILE).write_text(specification, encoding="utf-8")
        for logo in Path(RESOURCES).glob("logo-*"):
            shutil.copy(logo, made)
        made.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(made, folder)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _uninstall(options: Namespace) -> int:
    folder = _folder(options)
    if not folder.exists():
        raise CommandError(f"there is no kernel at {folder}")
    if not is_ours(folder / FILE):
        raise UsageError(f"{folder} is another kernel, it stays")
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise CommandError(f"cannot remove {folder}: {error.strerror}") from None
    sys.stdout.write(f"removed {folder}\n")
    return 0


def _list(options: Namespace) -> int:
    """tracehost's kernels that Jupyter finds: name, environment, place."""
    from jupyter_client.kernelspec import KernelSpecManager

    found = KernelSpecManager().find_kernel_specs()
    if options.prefix is not None:
        kernels = _folder(options).parent
        found |= {p.name: str(p) for p in kernels.glob("*") if p.is_dir()}
    ours = {name: path for name, path in sorted(found.items()) if is_ours(Path(path) / FILE)}
    width = max(map(len, ours), default=0)
    for name, path in ours.items():
        binary = json.loads((Path(path) / FILE).read_bytes())["argv"][0]
        lost = "" if os.access(binary, os.X_OK) else f"  (its binary {binary} is gone)"
        sys.stdout.write(f"{name.ljust(width)}  {path}{lost}\n")
    if not ours:
        sys.stderr.write("tracehost: no kernel is installed: tracehost kernel install\n")
    return 0
