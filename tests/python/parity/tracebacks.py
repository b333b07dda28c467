"""Errors and warnings, to the letter."""

from python_versions import NULL_BYTES_REFUSED

from .row import Row, c, module, script

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
    script("null byte", "x = 1\0\n", status=1 if NULL_BYTES_REFUSED else 0),
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

TRACEBACKS += [
    script("a suggestion for a name", "value = 1\nprint(valeu)\n", status=1),
    script(
        "an error in a task",
        "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    raise ValueError('v')\nasyncio.run(f())\n",
        status=1,
    ),
    script(
        "an error in a group of tasks",
        "import asyncio\nasync def f(): raise ValueError('v')\nasync def main():\n    async with asyncio.TaskGroup() as g: g.create_task(f())\nasyncio.run(main())\n",
        status=1,
    ),
    script(
        "an exception that nobody retrieved",
        "import asyncio\nasync def f(): raise ValueError('v')\nasync def main():\n    t = asyncio.create_task(f(), name='t'); await asyncio.sleep(0); del t\nasyncio.run(main())\n",
    ),
    script("a coroutine that nobody awaited", "async def f(): pass\nf()\n"),
    script(
        "an error with lone surrogates",
        "raise ValueError('\\udc80 \\xe9')\n",
        env={"LC_ALL": "C"},
        status=1,
    ),
    script(
        "text that cannot be encoded",
        "print('\\u20ac')\n",
        env={"PYTHONIOENCODING": "ascii"},
        status=1,
    ),
    script(
        "an error in a module",
        "import m\nm.f()\n",
        files={"m.py": "def f():\n    {}[1]\n"},
        status=1,
    ),
    script("a syntax error in a module", "import m\n", files={"m.py": "def f(:\n"}, status=1),
    module("an error in -m", "m", files={"m.py": "def f():\n    1 / 0\nf()\n"}, status=1),
    module(
        "an error while a package is imported",
        "p.m",
        files={"p/__init__.py": "1 / 0\n", "p/m.py": ""},
        status=1,
    ),
    Row(
        "an error in a zip",
        shell="'{exe}' -m zipapp d -o a.zip && '{exe}' a.zip",
        files={"d/__main__.py": "import m\n", "d/m.py": "x = 1\n1 / 0\n"},
        status=1,
    ),
    Row("a syntax error in -c", ("-c", "for\n"), status=1),
    Row("a syntax error on standard input", stdin="x = (1,\n", status=1),
    Row(
        "no ranges",
        ("-X", "no_debug_ranges", "s.py"),
        files={"s.py": "x = 1 + (2 / 0)\n"},
        status=1,
    ),
    script(
        "a limit of frames",
        "import sys\nsys.tracebacklimit = 1\ndef f(): g()\ndef g(): 1 / 0\nf()\n",
        status=1,
    ),
    script(
        "excepthook that raises",
        "import sys\ndef hook(*a): raise KeyError('in the hook')\nsys.excepthook = hook\n1 / 0\n",
        status=1,
    ),
    script("no excepthook", "import sys\ndel sys.excepthook\n1 / 0\n", status=1),
    script("no standard error", "import sys\nsys.stderr = None\n1 / 0\n", status=1),
    script(
        "unraisablehook",
        "import sys\nsys.unraisablehook = lambda u: print('unraisable', u.exc_value)\nclass A:\n    def __del__(self): 1 / 0\nA()\n",
    ),
    script(
        "threading.excepthook",
        "import threading\nthreading.excepthook = lambda a: print('hook', a.exc_value)\nt = threading.Thread(target=lambda: 1 / 0); t.start(); t.join()\n",
    ),
    script(
        "colours that are forced",
        "1 / 0\n",
        env={"FORCE_COLOR": "1", "PYTHON_COLORS": "1"},
        status=1,
    ),
    script("an error behind wide letters", "日本 = 'häß'; 日本 / 0\n", status=1),
]

WARNINGS = [
    script(
        "the line of a warning in a function",
        "import warnings\ndef f():\n    warnings.warn('careful', stacklevel=2)\n\nf()\n",
    ),
    script(
        "a warning of a module",
        "import m\nm.f()\n",
        files={"m.py": "import warnings\ndef f(): warnings.warn('m', RuntimeWarning)\n"},
    ),
    script(
        "a deprecation shows in the script",
        "import warnings\nwarnings.warn('old', DeprecationWarning)\n",
    ),
    script(
        "a deprecation does not show in a module",
        "import m\n",
        files={"m.py": "import warnings\nwarnings.warn('old', DeprecationWarning)\n"},
    ),
    script(
        "a warning shows once a line",
        "import warnings\nfor i in range(3): warnings.warn('careful')\n",
    ),
    script("a warning of the compiler", "x = 1\nprint(x is 1)\nprint('\\d')\n"),
    script(
        "a warning at the end", "import warnings, atexit\natexit.register(warnings.warn, 'late')\n"
    ),
    Row("-X dev finds a file left open", ("-X", "dev", "s.py"), files={"s.py": "open('s.py')\n"}),
    Row(
        "-W error stops at the line",
        ("-W", "error", "s.py"),
        files={"s.py": "print(1)\nimport warnings\nwarnings.warn('w')\n"},
        status=1,
    ),
    Row(
        "-W error with the compiler's",
        ("-W", "error", "s.py"),
        files={"s.py": "x = 1\nx is 1\n"},
        status=1,
    ),
    Row(
        "-W with a class",
        (
            "-W",
            "error::DeprecationWarning",
            "-c",
            "import warnings; warnings.warn('u'); warnings.warn('d', DeprecationWarning)",
        ),
        status=1,
    ),
    Row(
        "-W with a class of a module",
        ("-W", "ignore::m.Mine", "-c", "import m"),
        files={"m.py": "class Mine(UserWarning): pass\n"},
    ),
    Row(
        "-W by text and line",
        ("-W", "ignore:careful", "-W", "error:::__main__:2", "s.py"),
        files={"s.py": "import warnings\nwarnings.warn('careful')\nwarnings.warn('w')\n"},
    ),
    Row(
        "-W always",
        ("-W", "always", "-c", "import warnings\nfor i in range(2): warnings.warn('w')"),
    ),
    Row(
        "-W once and always",
        (
            "-Wonce",
            "-Walways::RuntimeWarning",
            "-c",
            "import sys, warnings; print(sys.warnoptions, [f[:1] + f[2:] for f in warnings.filters])",
        ),
    ),
    c(
        "PYTHONWARNINGS",
        "import sys, warnings; print(sys.warnoptions); warnings.warn('w')",
        env={"PYTHONWARNINGS": "error::RuntimeWarning,ignore"},
    ),
    c("the filters", "import warnings; print(warnings.filters)"),
]
