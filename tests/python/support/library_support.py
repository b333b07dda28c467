"""Code that stands for an installed library's."""

import sysconfig


def installed(source: str, module: str = "a_library", **names: object) -> dict:
    """What `source` defines, run as this module of the environment's packages. `names`: its globals before."""
    defined = {"__name__": module, **names}
    path = f"{sysconfig.get_paths()['purelib']}/{module.replace('.', '/')}.py"
    exec(compile(source, path, "exec"), defined)
    return defined
