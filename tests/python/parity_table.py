"""One row a behaviour in which the host must not differ from the python command.

`args` follow the executable. `files` are written into the working directory first. "{exe}" in args, files and
shell stands for the executable under test. A row with `shell` runs that line instead. A row with `send` waits for the first
line of output, then sends the signal. `slow` rows import torch or start many processes, and are run for one personality only.
"""

import signal
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    name: str
    args: tuple = ()
    files: dict[str, str | bytes] = field(default_factory=dict)
    stdin: str = ""
    env: dict[str, str | None] = field(default_factory=dict)
    shell: str = ""
    send: int = 0
    slow: bool = False
    status: int | None = None  # where the number itself matters: both must return it


def c(name: str, code: str, *more: str, **keywords) -> Row:
    return Row(name, ("-c", code, *more), **keywords)


def script(name: str, code: str, *more: str, **keywords) -> Row:
    return Row(name, ("s.py", *more), files={"s.py": code}, **keywords)


SHOW_ARGV = "import sys; print([a.encode('utf-8', 'surrogateescape') for a in sys.argv])\n"
SHOW_WHERE = (
    "import sys\n"
    "print(sys.path[0], sys.argv, __name__, globals().get('__file__'), __spec__ and __spec__.name, __package__)\n"
    "print(__loader__ and type(__loader__).__name__, sys.prefix, sys.base_prefix, sys.exec_prefix)\n"
)

EXIT = [
    c("exit with a number", "import sys; sys.exit(3)", status=3),
    c("exit with a message", "import sys; sys.exit('no luck')", status=1),
    c("exit with nothing", "import sys; sys.exit()", status=0),
    c("exit with -1", "import sys; sys.exit(-1)", status=255),
    c("exit with 256", "import sys; sys.exit(256)", status=0),
    c("exit with True", "raise SystemExit(True)", status=1),
    c("exit with a tuple", "raise SystemExit((1, 'two'))", status=1),
    c("os._exit", "import os; os._exit(7)", status=7),
    c("quit of site", "quit(4)", status=4),
    c(
        "exit in a thread is the thread's",
        "import sys, threading\nt = threading.Thread(target=sys.exit, args=(5,)); t.start(); t.join()",
        status=0,
    ),
    c("abort", "import os; os.abort()", status=-signal.SIGABRT),
    c("segmentation fault", "import ctypes; ctypes.string_at(0)", status=-signal.SIGSEGV),
    Row(
        "segmentation fault with faulthandler",
        ("-X", "faulthandler", "-c", "import ctypes; ctypes.string_at(0)"),
        status=-signal.SIGSEGV,
    ),
    c("SIGTERM", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)", status=-signal.SIGTERM),
    c("SIGKILL", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", status=-signal.SIGKILL),
    c("KeyboardInterrupt raised", "raise KeyboardInterrupt", status=-signal.SIGINT),
    c(
        "SIGINT from outside",
        "import time; print('ready', flush=True); time.sleep(30)",
        send=signal.SIGINT,
        status=-signal.SIGINT,
    ),
    c(
        "SIGTERM from outside",
        "import time; print('ready', flush=True); time.sleep(30)",
        send=signal.SIGTERM,
        status=-signal.SIGTERM,
    ),
    c(
        "SIGINT caught",
        "import time\ntry:\n print('ready', flush=True); time.sleep(30)\nexcept KeyboardInterrupt: print('caught')",
        send=signal.SIGINT,
        status=0,
    ),
    c(
        "SIGINT in asyncio",
        "import asyncio\nasync def f():\n print('ready', flush=True); await asyncio.sleep(30)\nasyncio.run(f())",
        send=signal.SIGINT,
        status=-signal.SIGINT,
    ),
    Row(
        "the shell's number for SIGINT",
        shell="'{exe}' -c 'raise KeyboardInterrupt' 2>/dev/null; echo $?",
    ),
    Row(
        "the shell's number for SIGTERM",
        shell="'{exe}' -c 'import os; os.kill(os.getpid(), 15)'; echo $?",
    ),
    Row(
        "the shell's number for a fault",
        shell="('{exe}' -c 'import ctypes; ctypes.string_at(0)') 2>/dev/null; echo $?",
    ),
]

TRACEBACKS = [
    script("uncaught exception, carets", "def f(x):\n    return 1 + x / 0\n\n\nf(2)\n", status=1),
    script(
        "exception with cause",
        "try:\n    {}['k']\nexcept KeyError as e:\n    raise ValueError('v') from e\n",
        status=1,
    ),
    script(
        "exception group", "raise ExceptionGroup('g', [ValueError(1), TypeError('t')])\n", status=1
    ),
    script(
        "exception with a note", "e = ValueError('v')\ne.add_note('a note')\nraise e\n", status=1
    ),
    script("syntax error", "print('not reached')\nx = = 1\n", status=1),
    script("indentation error", "if 1:\nprint(1)\n", status=1),
    script(
        "recursion error", "import sys\nsys.setrecursionlimit(60)\ndef f(): f()\nf()\n", status=1
    ),
    Row("wrong encoding", ("s.py",), files={"s.py": b"x = '\xff'\n"}, status=1),
    script("null byte", "x = 1\0\n", status=1),
    script(
        "exception in a thread",
        "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='worker'); t.start(); t.join()\n",
        status=0,
    ),
    script(
        "exception in __del__",
        "class A:\n    def __del__(self): 1 / 0\na = A(); del a\nprint('on')\n",
        status=0,
    ),
    script(
        "excepthook",
        "import sys\nsys.excepthook = lambda t, v, b: print('hook', t.__name__, v)\n1 / 0\n",
        status=1,
    ),
    c("exception in -c", "1 / 0", status=1),
    script("warning at a line", "import warnings\nwarnings.warn('careful')\n"),
]

ARGUMENTS = [
    script("the script's own options", SHOW_ARGV, "--lr", "0.1", "-v", "--", "-c", "--"),
    script(
        "options that the host has too",
        SHOW_ARGV,
        "--report",
        "--report=x",
        "--python",
        "p",
        "--help",
        "--version",
    ),
    script("words that are commands of the host", SHOW_ARGV, "doctor", "run", "help"),
    script("empty and blank arguments", SHOW_ARGV, "", " ", "\t"),
    script("negative numbers and equals signs", SHOW_ARGV, "-1", "--x=-2", "=", "a=b"),
    Row("an argument that is not UTF-8", ("s.py", b"\xff\xfe"), files={"s.py": SHOW_ARGV}),
    script("an argument in UTF-8", SHOW_ARGV, "häß", "日本"),
    c("arguments of -c", "import sys; print(sys.argv)", "--report", "-m", "x"),
    Row("arguments of -m", ("-m", "mod", "--report", "-x"), files={"mod.py": SHOW_WHERE}),
    Row("double dash before the script", ("--", "s.py", "--", "x"), files={"s.py": SHOW_ARGV}),
    Row(
        "clustered options",
        ("-BOc", "import sys; print(sys.flags.optimize, sys.dont_write_bytecode, sys.argv)", "-B"),
    ),
    script("original arguments", "import sys; print(sys.orig_argv[1:])\n", "a", "--b"),
]

FORMS = [
    script("where a script finds itself", SHOW_WHERE),
    Row(
        "where a script in a folder finds itself",
        ("d/s.py",),
        files={"d/s.py": SHOW_WHERE + "import beside\n", "d/beside.py": "print('beside')\n"},
    ),
    Row("where -c finds itself", ("-c", SHOW_WHERE)),
    Row(
        "where a module finds itself",
        ("-m", "pkg.mod"),
        files={"pkg/__init__.py": "", "pkg/mod.py": SHOW_WHERE},
    ),
    Row(
        "a package with __main__",
        ("-m", "pkg"),
        files={"pkg/__init__.py": "print('init')\n", "pkg/__main__.py": SHOW_WHERE},
    ),
    Row("a package without __main__", ("-m", "pkg"), files={"pkg/__init__.py": ""}, status=1),
    Row("a missing module", ("-m", "no_such_module"), status=1),
    Row("a directory", ("d",), files={"d/__main__.py": SHOW_WHERE, "d/other.py": ""}),
    Row("a directory without __main__", ("d",), files={"d/x.py": ""}, status=1),
    Row(
        "a zip",
        shell="'{exe}' -m zipapp d -o a.zip && '{exe}' a.zip x y",
        files={"d/__main__.py": SHOW_WHERE},
    ),
    Row("a missing file", ("missing.py",), status=2),
    Row("a missing file in a missing folder", ("no/such/missing.py", "--lr", "1"), status=2),
    Row("standard input by a dash", ("-", "a", "b"), stdin=SHOW_WHERE),
    Row("standard input", (), stdin=SHOW_WHERE),
    Row("standard input with an error", (), stdin="1 / 0\n", status=1),
    Row("an option, then standard input", ("-O",), stdin="print(__debug__)\n"),
    Row("interactive", ("-i", "-q"), stdin="x = 1\nx + 1\n1 / 0\n"),
    Row("interactive after a script", ("-i", "s.py"), files={"s.py": "x = 41\n"}, stdin="x + 1\n"),
    Row("interactive after an error", ("-i", "-c", "x = 5; 1 / 0"), stdin="x\n"),
    Row(
        "reads its input",
        ("s.py",),
        files={"s.py": "print(input('name? ').upper())\n"},
        stdin="ann\n",
    ),
    Row("input at its end", ("-c", "input()"), status=1),
    script("an empty script", ""),
    Row(
        "a script with a byte order mark", ("s.py",), files={"s.py": b"\xef\xbb\xbfprint('bom')\n"}
    ),
    Row(
        "a compiled script",
        shell="'{exe}' -m compileall -q -b s.py && '{exe}' s.pyc",
        files={"s.py": "print('pyc', __name__)\n"},
    ),
    Row("shebang", shell="chmod +x s.py && ./s.py --lr 1", files={"s.py": "#!{exe}\n" + SHOW_ARGV}),
]

OPTIONS = [
    Row(
        "-u", ("-u", "-c", "import sys; print(sys.stdout.write_through); sys.stderr.write('e\\n')")
    ),
    Row("-O", ("-O", "-c", "print(__debug__); assert 0")),
    Row("-OO", ("-OO", "s.py"), files={"s.py": "'doc'\nprint(__doc__)\n"}),
    Row("-W error", ("-W", "error", "-c", "import warnings; warnings.warn('w')"), status=1),
    Row("-Wignore", ("-Wignore", "-c", "import warnings; warnings.warn('w'); print('quiet')")),
    Row("-W badly written", ("-W", "nonsense:::", "-c", "pass")),
    Row(
        "-X utf8",
        ("-X", "utf8=0", "-c", "import sys; print(sys.flags.utf8_mode, sys._xoptions)"),
        env={"LC_ALL": "C"},
    ),
    Row(
        "-X dev",
        ("-X", "dev", "-c", "import sys, warnings; print(sys.flags.dev_mode, warnings.filters[0])"),
    ),
    Row("-X of no meaning", ("-X", "nothing=1", "-c", "import sys; print(sys._xoptions)")),
    Row(
        "-I",
        ("-I", "s.py"),
        files={"s.py": "import sys; print(sys.flags.isolated, sys.path[0])\n"},
        env={"PYTHONPATH": "/nowhere"},
    ),
    Row(
        "-E",
        ("-E", "-c", "import sys; print('/nowhere' in sys.path)"),
        env={"PYTHONPATH": "/nowhere"},
    ),
    Row("-P", ("-P", "-c", "import sys; print(sys.path[0])")),
    Row("-S", ("-S", "-c", "import sys; print('site' in sys.modules, sys.path[1:])")),
    Row("-V", ("-V",), status=0),
    Row("-VV", ("-VV",), status=0),
    Row("-h", ("-h",), status=0),
    Row("--help-xoptions", ("--help-xoptions",), status=0),
    Row("--check-hash-based-pycs", ("--check-hash-based-pycs", "always", "-c", "print(1)")),
    Row("an unknown short option", ("-Z", "s.py"), status=2),
    Row("-c without code", ("-c",), status=2),
    Row("-m without a module", ("-m",), status=2),
    Row(
        "PYTHONPATH",
        ("-c", "import beside"),
        files={"lib/beside.py": "print('found')\n"},
        env={"PYTHONPATH": "lib"},
    ),
    Row(
        "PYTHONUNBUFFERED and PYTHONHASHSEED",
        ("-c", "import sys; print(hash('a'), sys.stdout.write_through)"),
        env={"PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1"},
    ),
    Row("PYTHONIOENCODING", ("-c", "print('\\xe9')"), env={"PYTHONIOENCODING": "latin-1"}),
    Row(
        "LC_ALL=C",
        (
            "-c",
            "import sys; print(sys.stdout.encoding, sys.stderr.errors, sys.getfilesystemencoding()); print('\\xe9')",
        ),
        env={"LC_ALL": "C"},
    ),
    Row(
        "an unknown locale",
        ("-c", "import sys, locale; print(sys.stdout.encoding, locale.getpreferredencoding())"),
        env={"LC_ALL": "xx_YY"},
    ),
    Row(
        "C without UTF-8 mode",
        ("-c", "import sys; print(sys.stdout.encoding); print('\\xe9')"),
        env={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ),
]

PROCESS = [
    c(
        "prefix and flags",
        "import sys, sysconfig; print(sys.prefix, sys.base_prefix, sys.flags, sysconfig.get_paths()['purelib'])",
    ),
    c("search path", "import sys; print(sys.path)"),
    c("modules at start", "import sys; print(sorted(sys.modules))"),
    c("environment at start", "import os; print(sorted(os.environ.items()))"),
    c("open files at start", "import os; print(sorted(os.listdir('/proc/self/fd')))"),
    c(
        "signal handlers at start",
        "import signal\nfor s in ('SIGINT', 'SIGTERM', 'SIGPIPE', 'SIGXFSZ', 'SIGHUP'): print(s, signal.getsignal(getattr(signal, s)))",
    ),
    c(
        "base executable",
        "import os, sys; print(os.path.dirname(sys._base_executable), os.path.exists(sys._base_executable))",
    ),
    c(
        "atexit order",
        "import atexit; atexit.register(print, 'first'); atexit.register(print, 'second'); print('body')",
    ),
    c("atexit after an exception", "import atexit; atexit.register(print, 'bye'); 1 / 0", status=1),
    c(
        "atexit after exit",
        "import atexit, sys; atexit.register(print, 'bye'); sys.exit(9)",
        status=9,
    ),
    c("atexit that raises", "import atexit; atexit.register(lambda: 1 / 0); print('body')"),
    c(
        "a thread alive at exit",
        "import threading, time\nthreading.Thread(target=lambda: (time.sleep(.2), print('late'))).start(); print('main ends')",
    ),
    c(
        "a daemon thread at exit",
        "import threading, time\nthreading.Thread(target=lambda: time.sleep(60), daemon=True).start(); print('main ends')",
    ),
    c("unflushed output at exit", "import sys; sys.stdout.write('no newline')"),
    Row("output closed at exit", shell="'{exe}' -c 'print(1)' >&-; echo $?"),
    Row("a full device", shell="'{exe}' -c 'print(1)' >/dev/full; echo $?"),
    Row(
        "a broken pipe",
        shell="'{exe}' -c 'for i in range(100000): print(i)' | head -1; echo ${PIPESTATUS[0]}",
    ),
    Row(
        "a broken pipe at exit",
        shell="'{exe}' -u -c 'import time; time.sleep(.3); print(1)' | true; echo ${PIPESTATUS[0]}",
    ),
    Row(
        "not a terminal",
        (
            "-c",
            "import sys; print(sys.stdin.isatty(), sys.stdout.isatty(), sys.stdout.line_buffering)",
        ),
    ),
]

CHILDREN = [
    c(
        "a child by sys.executable",
        "import subprocess, sys\nr = subprocess.run([sys.executable, '-c', 'import sys; print(sys.prefix, sys.argv); sys.exit(3)', '--report'], capture_output=True, text=True); print(r.stdout, r.returncode)",
    ),
    c(
        "flags reach a child",
        "import subprocess, sys\nprint(subprocess._args_from_interpreter_flags())",
    ),
    script(
        "re-execution",
        "import os, sys\nprint(len(sys.argv), flush=True)\nif len(sys.argv) == 1: os.execv(sys.executable, [sys.executable, *sys.argv, 'again'])\n",
    ),
    c(
        "fork",
        "import os\np = os.fork()\nif p == 0: os._exit(5)\nprint(os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]))",
    ),
    Row(
        "multiprocessing spawn",
        ("s.py",),
        files={
            "s.py": "import multiprocessing as mp\ndef f(x): return x * x\nif __name__ == '__main__':\n    with mp.get_context('spawn').Pool(2) as p: print(p.map(f, range(5)))\n"
        },
    ),
    Row(
        "multiprocessing fork",
        ("s.py",),
        files={
            "s.py": "import multiprocessing as mp\ndef f(x): return x * x\nif __name__ == '__main__':\n    with mp.get_context('fork').Pool(2) as p: print(p.map(f, range(5)))\n"
        },
    ),
    Row(
        "multiprocessing forkserver",
        ("s.py",),
        files={
            "s.py": "import multiprocessing as mp\ndef f(x): return x * x\nif __name__ == '__main__':\n    with mp.get_context('forkserver').Pool(2) as p: print(p.map(f, range(5)))\n"
        },
    ),
    Row(
        "spawn with -O and -W",
        ("-O", "-W", "error", "s.py"),
        files={
            "s.py": "import multiprocessing as mp, sys\ndef f(q): q.put((sys.flags.optimize, sys.warnoptions))\nif __name__ == '__main__':\n    m = mp.get_context('spawn'); q = m.Queue(); p = m.Process(target=f, args=(q,)); p.start(); print(q.get()); p.join()\n"
        },
    ),
    Row(
        "a spawned process that fails",
        ("s.py",),
        files={
            "s.py": "import multiprocessing as mp\ndef f(): raise ValueError('in the child')\nif __name__ == '__main__':\n    p = mp.get_context('spawn').Process(target=f, name='child'); p.start(); p.join(); print(p.exitcode)\n"
        },
    ),
    Row(
        "process pool executor",
        ("s.py",),
        files={
            "s.py": "from concurrent.futures import ProcessPoolExecutor\nif __name__ == '__main__':\n    with ProcessPoolExecutor(2) as e: print(list(e.map(abs, [-1, 2])))\n"
        },
    ),
    Row(
        "shared memory",
        ("s.py",),
        files={
            "s.py": "from multiprocessing import shared_memory\ns = shared_memory.SharedMemory(create=True, size=8); s.buf[0] = 7; print(s.buf[0]); s.close(); s.unlink()\n"
        },
    ),
    Row("pip", ("-m", "pip", "--version")),
    Row(
        "venv",
        shell="'{exe}' -m venv --without-pip v && v/bin/python -c 'import sys; print(sys.prefix, sys.base_prefix)' && grep -v -e command -e executable v/pyvenv.cfg",
    ),
    Row("pdb", ("-m", "pdb", "s.py"), files={"s.py": "x = 1\ny = x + 1\n"}, stdin="n\nn\np x\nq\n"),
    Row(
        "unittest",
        ("-m", "unittest", "-q", "t"),
        files={
            "t.py": "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.fail('no')\n"
        },
        status=1,
    ),
    Row("cProfile", ("-m", "cProfile", "-o", "out", "s.py", "x"), files={"s.py": SHOW_WHERE}),
    Row("json.tool", ("-m", "json.tool"), stdin='{"a": 1}'),
    Row(
        "runpy",
        ("-c", "import runpy; print(sorted(k for k in runpy.run_path('s.py') if k == 'x'))"),
        files={"s.py": "x = 1\n"},
    ),
]

LOADER = """import torch
from torch.utils.data import DataLoader, TensorDataset
if __name__ == '__main__':
    data = TensorDataset(torch.arange(8.0))
    for batch, in DataLoader(data, batch_size=4, num_workers=1, multiprocessing_context='%s'): print(batch)
"""

TORCH = [
    Row("data loader, fork", ("s.py",), files={"s.py": LOADER % "fork"}, slow=True),
    Row("data loader, spawn", ("s.py",), files={"s.py": LOADER % "spawn"}, slow=True),
]

ROWS = EXIT + TRACEBACKS + ARGUMENTS + FORMS + OPTIONS + PROCESS + CHILDREN + TORCH
