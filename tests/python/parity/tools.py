"""Tools of the library and of the environment that are run by -m, and what they install."""

from .row import SHOW_WHERE, Row, module, script

TWO = "def f(x):\n    return x + 1\nprint(f(1))\nprint(__name__)\n"

TOOLS = [
    Row(
        "timeit",
        shell="'{exe}' -m timeit -n 1 -r 1 -s 'x = 1' 'print(x, __name__)' | sed 's/[0-9.]* [a-z]*sec/T/'",
    ),
    Row(
        "cProfile on standard output",
        shell="'{exe}' -m cProfile -s stdname s.py | grep -v seconds | sed 's/[0-9]*\\.[0-9]*/T/g'",
        files={"s.py": TWO},
    ),
    Row(
        "cProfile of a module",
        shell="'{exe}' -m cProfile -o out -m m x && '{exe}' -m pstats out <<< 'stats m.py' | sed -e 's/[A-Z].. [A-Z].. [ 0-9]. ..:..:.. ..../DATE/' -e 's/[0-9]*\\.[0-9]*/T/g' | grep -v seconds",
        files={"m.py": TWO},
    ),
    Row("trace", shell="'{exe}' -m trace --count -C . s.py && cat s.cover", files={"s.py": TWO}),
    module(
        "trace of lines",
        "trace",
        "--trace",
        "--ignore-dir=/usr:/lib",
        "s.py",
        files={"s.py": "x = 1\nprint(x)\n"},
    ),
    module(
        "pdb of a module",
        "pdb",
        "-m",
        "m",
        "x",
        files={"m.py": "import sys\nprint(sys.argv[1:])\n"},
        stdin="c\nq\n",
    ),
    module(
        "pdb with commands",
        "pdb",
        "-c",
        "b 2",
        "-c",
        "c",
        "s.py",
        files={"s.py": TWO},
        stdin="bt\np x\nc\nq\n",
    ),
    module(
        "pdb after an error",
        "pdb",
        "-c",
        "c",
        "s.py",
        files={"s.py": "x = 3\n1 / 0\n"},
        stdin="p x\nq\n",
    ),
    script("breakpoint", "x = 41\nbreakpoint()\nx += 1\nprint(x)\n", stdin="p x\nn\np x\nc\n"),
    script("breakpoint at the end of input", "x = 41\nbreakpoint()\nx += 1\n"),
    script(
        "pdb.post_mortem",
        "import pdb\ntry: 1 / 0\nexcept Exception as e: pdb.post_mortem(e.__traceback__)\n",
        stdin="w\nq\n",
    ),
    Row(
        "unittest, discovered",
        shell="'{exe}' -m unittest -v 2>&1 | sed 's/in [0-9.]*s/in T/'",
        files={
            "test_a.py": "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n    @unittest.skip('why')\n    def test_b(self): pass\n"
        },
    ),
    module(
        "unittest with an error",
        "unittest",
        "t",
        files={
            "t.py": "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): 1 / 0\n"
        },
        status=1,
    ),
    script(
        "unittest.main",
        "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.assertEqual(1, 2)\nunittest.main()\n",
        "-q",
        status=1,
    ),
    module("doctest", "doctest", "m.py", files={"m.py": "'''\n>>> 1 + 1\n3\n'''\n"}, status=1),
    module("py_compile with an error", "py_compile", "s.py", files={"s.py": "x = = 1\n"}, status=1),
    module(
        "compileall, two processes",
        "compileall",
        "-q",
        "-j",
        "2",
        "d",
        files={"d/a.py": "", "d/b.py": "x = = 1\n"},
        status=1,
    ),
    module("code", "code", "-q", stdin="1 + 1\nexit()\n"),
    module("asyncio", "asyncio", stdin="import asyncio\nawait asyncio.sleep(0, 5)\nexit()\n"),
    module("site", "site"),
    module("site's folder of the user", "site", "--user-site"),
    module("ensurepip", "ensurepip", "--version"),
    script(
        "runpy of a module",
        "import runpy\nrunpy.run_module('m', run_name='__main__', alter_sys=True)\n",
        files={"m.py": SHOW_WHERE},
    ),
    script(
        "runpy of a script",
        "import runpy\nrunpy.run_path('t.py', run_name='__main__')\n",
        files={"t.py": SHOW_WHERE},
    ),
    Row(
        "pytest",
        shell="'{exe}' -m pytest -q -p no:cacheprovider t.py | sed 's/in [0-9.]*s/in T/'",
        files={"t.py": "def test_a(): assert 1 == 2\n", "pytest.ini": "[pytest]\n"},
        slow=True,
    ),
    Row(
        "IPython",
        shell="IPYTHONDIR=i '{exe}' -m IPython --no-banner --colors=NoColor -c 'import sys; print(sys.argv, sys.prefix); 1 / 0' 2>&1 | tail -8",
        slow=True,
    ),
    Row(
        "IPython, a script",
        shell="IPYTHONDIR=i '{exe}' -m IPython --no-banner --colors=NoColor s.py x",
        files={"s.py": SHOW_WHERE},
        slow=True,
    ),
    Row(
        "pip installs a program with its shebang",
        shell="'{exe}' wheel.py && '{exe}' -m venv --without-pip v && '{exe}' -m pip -q --python v/bin/python install --no-index --no-deps --no-cache-dir --disable-pip-version-check mine-1.0-py3-none-any.whl && v/bin/mine --x; echo $?",
        files={
            "wheel.py": "import zipfile\n"
            "with zipfile.ZipFile('mine-1.0-py3-none-any.whl', 'w') as z:\n"
            "    z.writestr('mine.py', 'import sys\\ndef main():\\n    print(sys.argv[1:], sys.prefix)\\n    return 3\\n')\n"
            "    d = 'mine-1.0.dist-info/'\n"
            "    z.writestr(d + 'METADATA', 'Metadata-Version: 2.1\\nName: mine\\nVersion: 1.0\\n')\n"
            "    z.writestr(d + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n"
            "    z.writestr(d + 'entry_points.txt', '[console_scripts]\\nmine = mine:main\\n')\n"
            "    z.writestr(d + 'RECORD', '')\n"
        },
        slow=True,
    ),
    Row(
        "venv by copies",
        shell="'{exe}' -m venv --without-pip --copies v && v/bin/python -c 'import sys; print(sys.prefix)'; ls v v/bin",
    ),
    Row(
        "venv with the system's packages",
        shell="'{exe}' -m venv --without-pip --system-site-packages v && v/bin/python -c 'import sys; print(sys.path)'",
    ),
    Row(
        "venv in a venv",
        shell="'{exe}' -m venv --without-pip v && v/bin/python -m venv --without-pip w && w/bin/python -c 'import sys; print(sys.prefix, sys.base_prefix)'; ls w/bin",
    ),
    Row(
        "venv, activated",
        shell="'{exe}' -m venv --without-pip v && . v/bin/activate && python -c 'import sys; print(sys.prefix, sys.executable)'; '{exe}' -c 'import sys; print(sys.prefix)'",
    ),
]
