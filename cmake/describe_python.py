"""Print, as one JSON object, what the build needs to know of the interpreter that runs this. Imports no torch: that takes seconds."""

import importlib.util
import json
import os
import platform
import re
import sys
import sysconfig


def torch_facts() -> tuple[str, str]:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return "", ""
    root = os.path.dirname(spec.origin)
    with open(os.path.join(root, "version.py"), encoding="utf-8") as file:
        found = re.search(r"__version__\s*(?::[^=]*)?=\s*['\"]([^'\"]+)", file.read())
    return root, found.group(1) if found else ""


def library_dirs() -> list[str]:
    lib = sysconfig.get_config_var("LIBDIR") or ""
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    named = [lib, os.path.join(lib, multiarch), sysconfig.get_config_var("LIBPL") or ""]
    return [d for d in named if d and os.path.isdir(d)]


torch_dir, torch_version = torch_facts()
json.dump(
    {
        "VERSION": platform.python_version(),
        "SHORT_VERSION": "%d.%d" % sys.version_info[:2],
        "INCLUDE": sysconfig.get_paths()["include"],
        "LIBRARY": "libpython%s%s.so" % (sysconfig.get_config_var("LDVERSION") or "", ""),
        "LIBRARY_DIRS": ";".join(library_dirs()),
        "SOABI": sysconfig.get_config_var("SOABI"),
        "PURELIB": sysconfig.get_paths()["purelib"],
        "PREFIX": sys.prefix,
        "STDLIB": os.path.realpath(sysconfig.get_paths()["stdlib"]),
        "TORCH_DIR": torch_dir,
        "TORCH_VERSION": torch_version,
    },
    sys.stdout,
)
