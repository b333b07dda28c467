"""Python's own options and variables."""

from .row import Row, c, script

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
        (
            "-c",
            "import sys; print(hash('a'), list({'a', 'b', 'c', 'd'}), sys.stdout.write_through)",
        ),
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

FLAGS = "import sys; print(sys.flags)"

OPTIONS += [
    *(
        Row(f"the flags of {' '.join(o)}", (*o, "-c", FLAGS))
        for o in (
            ("-b",),
            ("-bb",),
            ("-B",),
            ("-d",),
            ("-E", "-s"),
            ("-R",),
            ("-q",),
            ("-OO", "-u"),
            ("-IS",),
            ("-sSP",),
            ("-X", "dev", "-X", "utf8"),
        )
    ),
    Row("-b", ("-b", "-c", "print('a' == b'a', str(b'x'))")),
    Row("-bb", ("-bb", "-c", "print('a' == b'a')"), status=1),
    Row("-B", shell="'{exe}' -B -c 'import m'; ls; '{exe}' -c 'import m'; ls", files={"m.py": ""}),
    Row(
        "-v",
        shell="'{exe}' -v -c 'import m' 2>&1 | grep -a \"'m'\\|^# cleanup\\[1\\]\"",
        files={"m.py": ""},
    ),
    Row("-?", ("-?",), status=0),
    Row("--help", shell="'{exe}' --help-env", status=0),
    Row("--help-all", ("--help-all",), status=0),
    Row("-c behind many options", ("-u", "-O", "-B", "-W", "ignore", "-X", "dev", "-c", FLAGS)),
    Row("-W without a value", ("-W",), status=2),
    Row("-X without a value", ("-X",), status=2),
    Row("--check-hash-based-pycs badly", ("--check-hash-based-pycs", "x", "-c", "1"), status=2),
    Row("an unknown long option of Python's form", ("-c", "1", "--nothing"), status=0),
    Row(
        "-X importtime",
        shell="'{exe}' -X importtime -c 'import m' 2>&1 | sed 's/.*|//'",
        files={"m.py": "import json\n"},
    ),
    Row(
        "-X tracemalloc",
        (
            "-X",
            "tracemalloc=5",
            "-c",
            "import tracemalloc; print(tracemalloc.is_tracing(), tracemalloc.get_traceback_limit())",
        ),
    ),
    Row(
        "-X frozen_modules",
        ("-X", "frozen_modules=off", "-c", "import os; print(os.__spec__.origin == 'frozen')"),
    ),
    Row(
        "-X int_max_str_digits", ("-X", "int_max_str_digits=640", "-c", "str(10 ** 640)"), status=1
    ),
    Row(
        "-X pycache_prefix",
        shell="'{exe}' -X pycache_prefix=c -c 'import m, sys; print(sys.pycache_prefix)'; ls",
        files={"m.py": ""},
    ),
    Row(
        "-X warn_default_encoding",
        ("-X", "warn_default_encoding", "s.py"),
        files={"s.py": "open('s.py').close()\n"},
    ),
    Row("-X utf8 badly", ("-X", "utf8=2", "-c", "1"), status=1),
    Row("-X cpu_count", ("-X", "cpu_count=3", "-c", "import os; print(os.cpu_count())")),
    Row("-X perf", ("-X", "perf", "-c", "print(1)")),
    Row("-X showrefcount", ("-X", "showrefcount", "-c", "print(1)")),
    Row(
        "-E with options in variables",
        ("-E", "-c", FLAGS),
        env={"PYTHONOPTIMIZE": "2", "PYTHONUNBUFFERED": "1"},
    ),
    Row(
        "-I with options in variables",
        ("-I", "-c", FLAGS + "; print(sys.path)"),
        env={"PYTHONPATH": "/nowhere", "PYTHONOPTIMIZE": "2"},
    ),
]

VARIABLES = [
    *(
        c(f"{name}={value}", FLAGS + "; print(sys.warnoptions)", env={name: value})
        for name, value in (
            ("PYTHONOPTIMIZE", "1"),
            ("PYTHONOPTIMIZE", "x"),
            ("PYTHONDONTWRITEBYTECODE", "1"),
            ("PYTHONDEVMODE", "1"),
            ("PYTHONSAFEPATH", "1"),
            ("PYTHONNOUSERSITE", "1"),
            ("PYTHONDEBUG", "1"),
            ("PYTHONHASHSEED", "7"),
            ("PYTHONUTF8", "0"),
            ("PYTHONINTMAXSTRDIGITS", "700"),
            ("PYTHONNODEBUGRANGES", "1"),
            ("PYTHONWARNDEFAULTENCODING", "1"),
            ("PYTHONUNBUFFERED", ""),
        )
    ),
    c("PYTHONHASHSEED badly", "1", env={"PYTHONHASHSEED": "x"}, status=1),
    c(
        "PYTHONHASHSEED=random",
        "import sys; print(sys.flags.hash_randomization)",
        env={"PYTHONHASHSEED": "random"},
    ),
    c("PYTHONUTF8 badly", "1", env={"PYTHONUTF8": "x"}, status=1),
    c(
        "PYTHONTRACEMALLOC",
        "import tracemalloc; print(tracemalloc.get_traceback_limit())",
        env={"PYTHONTRACEMALLOC": "3"},
    ),
    c("PYTHONFAULTHANDLER", "import ctypes; ctypes.string_at(0)", env={"PYTHONFAULTHANDLER": "1"}),
    c("PYTHONMALLOC=debug", "print('on')", env={"PYTHONMALLOC": "debug"}),
    c("PYTHONMALLOC badly", "1", env={"PYTHONMALLOC": "x"}, status=1),
    c(
        "PYTHONASYNCIODEBUG",
        "import asyncio\nasync def f(): print(asyncio.get_running_loop().get_debug())\nasyncio.run(f())",
        env={"PYTHONASYNCIODEBUG": "1"},
    ),
    c(
        "PYTHONIOENCODING with its errors",
        "print('\\u20ac')",
        env={"PYTHONIOENCODING": "ascii:replace"},
    ),
    c("PYTHONIOENCODING badly", "print(1)", env={"PYTHONIOENCODING": "nothing"}, status=1),
    c("PYTHONHOME that is no home", "1", env={"PYTHONHOME": "/nowhere"}, status=1),
    c(
        "PYTHONEXECUTABLE",
        "import sys; print(sys.executable)",
        env={"PYTHONEXECUTABLE": "/nowhere"},
    ),
    c(
        "PYTHONPYCACHEPREFIX",
        "import m, sys; print(sys.pycache_prefix, m.__cached__)",
        files={"m.py": ""},
        env={"PYTHONPYCACHEPREFIX": "c"},
    ),
    c(
        "PYTHONPROFILEIMPORTTIME and PYTHONVERBOSE unset",
        "import sys; print(sys.flags.verbose)",
        env={"PYTHONVERBOSE": "0"},
    ),
    c(
        "PYTHONBREAKPOINT",
        "breakpoint('a', b=1)",
        files={"m.py": "def f(*a, **k): print('stopped', a, k)\n"},
        env={"PYTHONBREAKPOINT": "m.f"},
    ),
    c("PYTHONBREAKPOINT=0", "breakpoint(); print('on')", env={"PYTHONBREAKPOINT": "0"}),
    c(
        "PYTHONBREAKPOINT that is missing",
        "breakpoint(); print('on')",
        env={"PYTHONBREAKPOINT": "no.such"},
    ),
    c("PYTHONPATH of many parts", "import sys; print(sys.path)", env={"PYTHONPATH": "a::/b:a"}),
    c(
        "PYTHONPATH in the child",
        "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import m'])",
        files={"lib/m.py": "print('found')\n"},
        env={"PYTHONPATH": "lib"},
    ),
    c("PYTHONCASEOK", "import M", files={"m.py": "print('found')\n"}, env={"PYTHONCASEOK": "1"}),
    c(
        "sitecustomize",
        "import sys; print('sitecustomize' in sys.modules)",
        files={"sitecustomize.py": "print('site', __file__)\n"},
        env={"PYTHONPATH": "."},
    ),
    c(
        "sitecustomize that fails",
        "print('on')",
        files={"sitecustomize.py": "1 / 0\n"},
        env={"PYTHONPATH": "."},
    ),
    c(
        "usercustomize",
        "print('on')",
        files={"usercustomize.py": "print('user')\n"},
        env={"PYTHONPATH": "."},
    ),
    Row(
        "-S leaves sitecustomize",
        ("-S", "-c", "print('on')"),
        files={"sitecustomize.py": "print('site')\n"},
        env={"PYTHONPATH": "."},
    ),
    Row(
        "site.main after -S",
        ("-S", "-c", "import site, sys; site.main(); print(sys.path, sys.prefix)"),
    ),
    c(
        "a .pth file",
        "import site, sys; site.addsitedir('d'); print(sys.path[-2:])",
        files={"d/x.pth": "import sys; print('pth')\nsub\n", "d/sub/x": ""},
    ),
    c(
        "a home of the user",
        "import site, os; print(site.ENABLE_USER_SITE, site.getuserbase(), os.path.expanduser('~'))",
        env={"HOME": "/nowhere"},
    ),
    c(
        "a base of the user",
        "import site; print(site.getuserbase(), site.getusersitepackages())",
        env={"PYTHONUSERBASE": "/b"},
    ),
    c("no PATH", "import sys; print(sys.prefix)", env={"PATH": None}),
    c(
        "an empty environment",
        "import os, sys; print(sorted(os.environ), sys.prefix, sys.getfilesystemencoding())",
        env={"PATH": "", "HOME": None, "LANG": None},
    ),
    c(
        "variables that are not UTF-8",
        "import os; print(os.environb[b'X'], ascii(os.environ['X']))",
        env={"X": "\udcff"},
    ),
    c(
        "VIRTUAL_ENV of another place",
        "import sys; print(sys.prefix)",
        env={"VIRTUAL_ENV": "/nowhere"},
    ),
    c(
        "LANG=C",
        "import locale, sys; print(sys.stdout.encoding, sys.flags.utf8_mode, locale.getlocale(), locale.setlocale(locale.LC_CTYPE))",
        env={"LANG": "C"},
    ),
    c(
        "LC_ALL=POSIX",
        "import locale, os, sys; print(sys.stdout.encoding, locale.setlocale(locale.LC_CTYPE), os.environ.get('LC_CTYPE'))",
        env={"LC_ALL": "POSIX"},
    ),
    c(
        "LC_CTYPE that is coerced",
        "import os; print(os.environ.get('LC_CTYPE'))",
        env={"LANG": None},
    ),
    c("coercion that is told", "print(1)", env={"LANG": "C", "PYTHONCOERCECLOCALE": "warn"}),
    c(
        "a file's name in C",
        "import os; print(os.listdir('.'), ascii(os.fsdecode(b'\\xc3\\xa9')))",
        files={"é": ""},
        env={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ),
    script(
        "MALLOC_ and TZ",
        "import time; print(time.tzname)\n",
        env={"TZ": "America/New_York", "MALLOC_ARENA_MAX": "1"},
    ),
]
