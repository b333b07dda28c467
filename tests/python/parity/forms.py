"""What a program is given by: arguments, script, module, folder, zip, standard input."""

from .row import SHOW_ARGV, SHOW_WHERE, Row, c, module, script

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

ARGUMENTS += [
    script("many arguments", SHOW_ARGV, *(str(i) for i in range(200))),
    script("a long argument", "import sys; print(len(sys.argv[1]))\n", "x" * 100_000),
    script(
        "arguments with letters of their own", SHOW_ARGV, "$HOME", "*", "a b", "'", '"', "\\", "\n"
    ),
    script(
        "arguments that look like Python's",
        SHOW_ARGV,
        "-u",
        "-O",
        "-W",
        "error",
        "-X",
        "dev",
        "-i",
        "-m",
        "x",
        "-",
    ),
    Row("arguments of standard input", ("-", "--report", "-c"), stdin=SHOW_ARGV),
    Row("arguments of a folder", ("d", "--report", "x"), files={"d/__main__.py": SHOW_ARGV}),
    Row(
        "arguments before any code ran",
        ("-m", "m", "--x"),
        files={"m.py": "", "sitecustomize.py": "import sys; print(sys.argv)\n"},
        env={"PYTHONPATH": "."},
    ),
    Row(
        "original arguments of options",
        ("-O", "-W", "ignore", "-Xdev", "-c", "import sys; print(sys.orig_argv[1:])", "-O"),
    ),
    Row(
        "original arguments of a module",
        ("-m", "m", "-m"),
        files={"m.py": "import sys; print(sys.orig_argv[1:], sys.argv[1:])\n"},
    ),
    Row(
        "an argument of bytes as a file's name",
        ("s.py", b"\xff"),
        files={
            "s.py": "import sys; open(sys.argv[1], 'w').close()\nimport os; print(os.listdir(b'.'))\n"
        },
        env={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ),
    script(
        "argparse",
        "import argparse\np = argparse.ArgumentParser(); p.add_argument('--lr', type=float); p.parse_args()\n",
        "--lr",
        "x",
        status=2,
    ),
    script(
        "the help of argparse",
        "import argparse\np = argparse.ArgumentParser(); p.add_argument('--lr', type=float); p.parse_args()\n",
        "--help",
        status=0,
    ),
    module(
        "the help of argparse in a module",
        "p.m",
        "-h",
        files={
            "p/__init__.py": "",
            "p/m.py": "import argparse\nargparse.ArgumentParser().parse_args()\n",
        },
        status=0,
    ),
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

FORMS += [
    Row("a script with a blank in its name", ("a b/c d.py", "x"), files={"a b/c d.py": SHOW_WHERE}),
    Row("a script with other letters in its name", ("häß.py",), files={"häß.py": SHOW_WHERE}),
    Row(
        "a script whose name is not UTF-8",
        shell="cp s.py $'\\xff.py' && '{exe}' $'\\xff.py'",
        files={"s.py": "import sys; print(ascii(sys.argv), ascii(__file__))\n"},
    ),
    Row("a script without an ending", ("s",), files={"s": SHOW_WHERE}),
    Row("a script that begins with a dash", ("--", "-s.py", "-x"), files={"-s.py": SHOW_WHERE}),
    Row(
        "a script by its full path",
        shell="cd / && '{exe}' \"$OLDPWD/d/s.py\"",
        files={"d/s.py": SHOW_WHERE},
    ),
    Row(
        "a script in the folder above",
        shell="cd e && '{exe}' ../d/./s.py",
        files={"d/s.py": SHOW_WHERE, "e/x": ""},
    ),
    Row(
        "a link to a script",
        shell="ln -s d/s.py l.py && '{exe}' l.py",
        files={"d/s.py": SHOW_WHERE + "import beside\n", "d/beside.py": "print(1)\n"},
    ),
    Row(
        "a link to a folder",
        shell="ln -s d l && '{exe}' l/s.py && '{exe}' l",
        files={"d/s.py": SHOW_WHERE, "d/__main__.py": SHOW_WHERE},
    ),
    Row(
        "a script from a substitution",
        shell="'{exe}' <(echo 'import sys; print(sys.argv[1:], sys.path[0])') x",
    ),
    Row("a script from /dev/stdin", ("/dev/stdin", "x"), stdin="import sys; print(sys.argv)\n"),
    Row("the folder itself", (".", "x"), files={"__main__.py": SHOW_WHERE}),
    Row(
        "a script that cannot be read",
        shell="mkfifo p; chmod 0 p; '{exe}' d/nothing/s.py",
        files={"d/nothing": ""},
        status=2,
    ),
    Row(
        "a script in a folder that is gone",
        shell="mkdir g && cd g && rmdir ../g && '{exe}' s.py; '{exe}' -c 'import sys; print(sys.path[0])'",
    ),
    script(
        "a script that changes the folder",
        "import os; os.chdir('d')\nimport beside\n",
        files={"d/x": "", "beside.py": "print('beside')\n"},
    ),
    script("a script that removes itself", "import os\nos.remove(__file__)\n1 / 0\n", status=1),
    Row(
        "a script in Latin-1",
        ("s.py",),
        files={"s.py": b"# coding: latin-1\nprint(ascii('\xe9'))\n"},
    ),
    Row(
        "a script with an unknown coding",
        ("s.py",),
        files={"s.py": "# coding: nothing\n"},
        status=1,
    ),
    Row(
        "a script with carriage returns",
        ("s.py",),
        files={"s.py": "x = 1\r\nif x:\r\n    print(x)\r\n1 / 0"},
        status=1,
    ),
    Row("a script without a last newline", ("s.py",), files={"s.py": "if 1:\n    print(1)"}),
    script(
        "__main__ by its name",
        "import __main__, sys\nprint(__main__ is sys.modules['__main__'], sorted(vars(__main__)))\n",
    ),
    script(
        "a script that imports itself",
        "print(__name__)\nif __name__ == '__main__':\n    import s\n",
    ),
    script(
        "pickling by name",
        "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))) is A, A.__module__)\n",
    ),
    script(
        "the source of a function",
        "import inspect\ndef f(): pass\nprint(inspect.getsource(f), inspect.getsourcefile(f))\n",
    ),
    script(
        "globals of a script",
        "print({k: v for k, v in globals().items() if k not in ('__builtins__', '__loader__')})\n",
    ),
    c(
        "globals of -c",
        "print({k: v for k, v in globals().items() if k not in ('__builtins__', '__loader__')})",
    ),
    Row("-c of many lines", ("-c", "if 1:\n  print(1)\n\nprint(2)")),
    Row("-c that begins with blanks", ("-c", "  print(1)")),
    Row("-c with other letters", ("-c", "print(ascii('häß'))")),
    Row("-c that is not UTF-8", ("-c", b"print(ascii('\xff'))")),
    Row("-c without text", ("-c", "")),
    Row("-c glued to its code", ("-cprint(1)",)),
    Row("-m glued to its module", ("-mm",), files={"m.py": "print(__name__)\n"}),
    module("a module of a namespace package", "n.m", files={"n/m.py": SHOW_WHERE}),
    module(
        "a module with a relative import",
        "p.m",
        files={"p/__init__.py": "", "p/m.py": "from .n import x; print(x)\n", "p/n.py": "x = 1\n"},
    ),
    module("a module in a missing package", "no.such.module", status=1),
    module("a module in a module", "m.n", files={"m.py": ""}, status=1),
    module("a built-in module", "sys", status=1),
    module("a frozen module", "__hello__"),
    module("a module that is not found inside", "m", files={"m.py": "import no_such\n"}, status=1),
    Row(
        "a module in a zip",
        shell="'{exe}' -m zipfile -c a.zip m.py && rm m.py && PYTHONPATH=a.zip '{exe}' -m m x",
        files={"m.py": SHOW_WHERE},
    ),
    Row(
        "a zip without __main__",
        shell="'{exe}' -m zipfile -c a.zip m.py && '{exe}' a.zip",
        files={"m.py": ""},
        status=1,
    ),
    Row("a zip that is none", ("a.zip",), files={"a.zip": b"PK\x03\x04 not one"}, status=1),
    Row(
        "an application in a zip, by its shebang",
        shell="'{exe}' -m zipapp d -o a.pyz -p '{exe}' -m m:main && ./a.pyz x",
        files={"d/m.py": "def main():\n    import sys; print(sys.argv[1:])\n"},
    ),
    Row(
        "a shebang with an option",
        shell="chmod +x s.py && ./s.py",
        files={"s.py": "#!{exe} -O\nprint(__debug__)\n"},
    ),
    Row(
        "a shebang of env",
        shell="chmod +x s.py && ./s.py x",
        files={"s.py": "#!/usr/bin/env -S {exe} -u\n" + SHOW_ARGV},
    ),
    Row("-x", ("-x", "s.py"), files={"s.py": "this is no Python\nprint('on')\n1 / 0\n"}, status=1),
    Row(
        "standard input, the rest of it",
        shell="printf 'import sys\\nprint(sys.stdin.read())\\nnot code\\n' | '{exe}' -",
    ),
    Row("standard input from a file", shell="'{exe}' < s.py", files={"s.py": SHOW_WHERE}),
    Row("standard input that is empty", stdin=""),
    Row("standard input that is closed", shell="'{exe}' -c 'import sys; print(sys.stdin)' <&-"),
    Row("standard input with a function", stdin="def f():\n    return 3\n\nprint(f())\n"),
    Row(
        "input, line after line",
        ("-c", "import sys\nfor line in sys.stdin: print(line.split())"),
        stdin="a b\nc\n",
    ),
    Row("input in bytes", ("-c", "import sys; print(sys.stdin.buffer.read())"), stdin="\0\x7f\r\n"),
    Row("input, then its end", ("-c", "print(input()); print(input())"), stdin="one", status=1),
    Row(
        "interactive, a block and an error in it",
        ("-i", "-q"),
        stdin="for i in (1, 0):\n  1 / i\n\nprint('on')\n",
    ),
    Row("interactive, a syntax error", ("-i", "-q"), stdin="x = = 1\nprint('on')\n"),
    Row("interactive, exit", ("-i", "-q"), stdin="exit(5)\n", status=5),
    Row("interactive, exit without brackets", ("-i", "-q"), stdin="exit\nquit\n_\n"),
    Row("interactive, the last value", ("-i", "-q"), stdin="1 + 1\n_ * 2\nNone\n'x'\n"),
    Row(
        "interactive, prompts of one's own",
        ("-i", "-q"),
        stdin="import sys\nsys.ps1 = '? '\nsys.displayhook = lambda v: print('shown', v)\n3\n",
    ),
    Row(
        "interactive after an exit", ("-i", "-c", "import sys; sys.exit(3)"), stdin="print('on')\n"
    ),
    Row(
        "interactive after a module", ("-i", "-m", "m"), files={"m.py": "x = 41\n"}, stdin="x + 1\n"
    ),
    Row("interactive, its banner", ("-i",), stdin=""),
    Row(
        "PYTHONINSPECT",
        ("s.py",),
        files={"s.py": "x = 41\n"},
        stdin="x + 1\n",
        env={"PYTHONINSPECT": "1"},
    ),
    script(
        "PYTHONINSPECT set by the script",
        "import os; os.environ['PYTHONINSPECT'] = '1'; x = 3\n",
        stdin="x\n",
    ),
    Row(
        "PYTHONSTARTUP",
        ("-i", "-q"),
        files={"up.py": "y = 7; print('started')\n"},
        stdin="y\n",
        env={"PYTHONSTARTUP": "up.py"},
    ),
    Row("PYTHONSTARTUP that is missing", ("-i", "-q"), stdin="1\n", env={"PYTHONSTARTUP": "up.py"}),
    Row("PYTHONSTARTUP is not for scripts", ("-c", "print(1)"), env={"PYTHONSTARTUP": "up.py"}),
]
