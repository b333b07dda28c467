"""`python -m tracehost_commands COMMAND [--option[=value]...] -- [word...]`, as the binary calls it."""

from __future__ import annotations

import importlib
import signal
import sys

from .errors import CommandError
from .signals import reraise

# Commands of which a folder has more than one file.
_FOLDERS = {"notebook": ".notebook", "kernel": ".notebook", "bench": ".bench"}


def main() -> int:
    command, *words = sys.argv[1:]
    end = words.index("--")
    try:
        module = importlib.import_module(f"{_FOLDERS.get(command, '')}.{command}", __package__)
        return module.main(words[:end], words[end + 1 :])
    except CommandError as error:
        sys.stderr.write(f"tracehost: {error}\n")
        return error.code
    except KeyboardInterrupt:
        reraise(signal.SIGINT)
        raise


if __name__ == "__main__":
    sys.exit(main())
