"""Code that stands for an installed library's."""

import sysconfig


def installed(source: str, **names: object) -> dict:
    """What `source` defines, run as a_library.py of the environment's packages. `names`: its globals before."""
    module = {"__name__": "a_library", **names}
    path = f"{sysconfig.get_paths()['purelib']}/a_library.py"
    exec(compile(source, path, "exec"), module)
    return module
