"""Processes that a program starts: most begin with sys.executable, which is the host."""

from .row import SHOW_WHERE, Row, c, script

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

MAIN = "if __name__ == '__main__':\n"


def spawned(name: str, body: str, *, functions: str = "", method: str = "spawn", **keywords) -> Row:
    """A script whose main part uses `mp`, the context of `method`."""
    head = f"import multiprocessing, os, sys\nmp = multiprocessing.get_context('{method}')\n"
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return script(name, head + functions + MAIN + lines, **keywords)


CHILDREN += [
    c(
        "the executable",
        "import os, sys; print(sys.executable, os.access(sys.executable, os.X_OK), os.readlink('/proc/self/exe') != '')",
    ),
    script(
        "re-execution by the original arguments",
        "import os, sys\nprint(sys.orig_argv[1:], os.environ.get('AGAIN'), flush=True)\nif os.environ.setdefault('AGAIN', '1') and len(sys.orig_argv) < 5: os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:], 'x', 'y', 'z'])\n",
    ),
    script(
        "re-execution with an option",
        "import os, sys\nprint(sys.flags.optimize, flush=True)\nif not sys.flags.optimize: os.execl(sys.executable, sys.executable, '-O', *sys.argv)\n",
    ),
    script(
        "re-execution in a child of a child",
        "import os, subprocess, sys\nn = int(sys.argv[1]) if len(sys.argv) > 1 else 0\nprint(n, sys.prefix, flush=True)\nif n < 3: sys.exit(subprocess.call([sys.executable, __file__, str(n + 1)]) + 1)\n",
        status=3,
    ),
    c(
        "os.spawnv",
        "import os, sys; print(os.spawnv(os.P_WAIT, sys.executable, [sys.executable, '-c', 'import sys; print(sys.prefix, flush=True); sys.exit(4)']))",
    ),
    c(
        "posix_spawn",
        "import os, sys; p = os.posix_spawn(sys.executable, [sys.executable, '-c', 'import sys; sys.exit(4)'], os.environ); print(os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]))",
    ),
    c(
        "a child under another name",
        "import subprocess, sys; print(subprocess.run(['python9', '-c', 'import sys; print(sys.prefix)'], executable=sys.executable, capture_output=True, text=True))",
    ),
    Row(
        "a link to the executable",
        shell="ln -s '{exe}' python3 && ./python3 -c 'import sys; print(sys.flags.isolated, sys.argv)' x",
    ),
    c(
        "isolated children",
        "import subprocess, sys\nfor o in ('-I', '-S', '-E', '-sP'): print(o, subprocess.run([sys.executable, o, '-c', 'import sys; print(sys.flags, sys.prefix)'], capture_output=True, text=True).stdout)",
    ),
    c(
        "a child without variables",
        "import subprocess, sys; print(subprocess.run([sys.executable, '-c', 'import sys; print(sys.prefix)'], env={}, capture_output=True, text=True))",
    ),
    c(
        "a child of the shell",
        "import os, sys; print(os.system(f'{sys.executable} -c \"exit(3)\"') >> 8, os.popen(f'{sys.executable} -c \"print(5)\"').read())",
    ),
    c(
        "a child that is killed",
        "import subprocess, sys\np = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(30)']); p.terminate(); print(p.wait())",
    ),
    c(
        "a child that takes too long",
        "import subprocess, sys\np = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\ntry: p.wait(.05)\nexcept subprocess.TimeoutExpired as e: print(e.timeout)\np.kill(); print(p.wait())",
    ),
    c(
        "a pipe to a child",
        "import subprocess, sys; print(subprocess.run([sys.executable, '-'], input='print(6 * 7)', text=True, capture_output=True).stdout)",
    ),
    c(
        "an inherited descriptor",
        "import os, subprocess, sys\nr, w = os.pipe(); subprocess.run([sys.executable, '-c', f'import os; os.write({w}, b\"hi\")'], pass_fds=[w]); print(os.read(r, 9))",
    ),
    c(
        "a session of its own",
        "import os, subprocess, sys; print(subprocess.run([sys.executable, '-c', 'import os; print(os.getsid(0) == os.getpid())'], start_new_session=True, capture_output=True, text=True).stdout)",
    ),
    Row(
        "flags reach a child, many",
        (
            "-O",
            "-B",
            "-W",
            "error",
            "-X",
            "dev",
            "-X",
            "utf8",
            "-E",
            "-s",
            "-P",
            "-c",
            "import subprocess; print(subprocess._args_from_interpreter_flags())",
        ),
    ),
    script(
        "fork with what was buffered",
        "import os, sys\nprint('once or twice')\nif os.fork() == 0: sys.exit(3)\nprint(os.waitstatus_to_exitcode(os.wait()[1]))\n",
    ),
    script(
        "fork, an error in the child",
        "import os\nif os.fork() == 0: 1 / 0\nprint(os.waitstatus_to_exitcode(os.wait()[1]))\n",
    ),
    script(
        "fork, atexit in both",
        "import atexit, os\natexit.register(print, 'bye')\nif os.fork() == 0: raise SystemExit\nos.wait()\n",
    ),
    script(
        "fork in a thread",
        "import os, threading\ndef f():\n    if os.fork() == 0: os._exit(0 if threading.main_thread() is threading.current_thread() else 1)\n    print(os.waitstatus_to_exitcode(os.wait()[1]))\nt = threading.Thread(target=f); t.start(); t.join()\n",
    ),
    script(
        "functions around a fork",
        "import os\nos.register_at_fork(before=lambda: print('before', flush=True), after_in_child=lambda: os.write(1, b'child\\n'), after_in_parent=lambda: (os.wait(), print('parent')))\nif os.fork() == 0: os._exit(0)\n",
    ),
    script(
        "a terminal by a fork",
        "import os, sys\np, fd = os.forkpty()\nif p == 0:\n    print(sys.stdin.isatty(), flush=True); os._exit(0)\nprint(os.read(fd, 99)); os.waitpid(p, 0)\n",
    ),
    c(
        "the default method",
        "import multiprocessing as mp; print(mp.get_start_method(), mp.get_all_start_methods(), mp.current_process().name, mp.parent_process(), mp.cpu_count())",
    ),
    spawned(
        "spawn, where the child finds itself",
        "p = mp.Process(target=f, args=(1,), name='child'); p.start(); p.join()",
        functions="def f(x): print(x, __name__, sys.argv, sys.path[0], sys.prefix, os.path.basename(__file__), multiprocessing.current_process().name, sys.flags)\n",
    ),
    spawned(
        "forkserver, where the child finds itself",
        "p = mp.Process(target=f, args=(1,), name='child'); p.start(); p.join()",
        functions="def f(x): print(x, __name__, sys.argv, sys.path[0], sys.prefix, os.path.basename(__file__), multiprocessing.current_process().name, sys.flags)\n",
        method="forkserver",
    ),
    spawned(
        "spawn, queue, pipe, value and event",
        "q = mp.Queue(); a, b = mp.Pipe(); v = mp.Value('i', 3); e = mp.Event(); p = mp.Process(target=f, args=(q, b, v, e)); p.start(); print(e.wait(20), q.get(), a.recv()); p.join(); print(v.value)",
        functions="def f(q, c, v, e): e.set(); q.put(1); c.send([2]); v.value += 1\n",
    ),
    spawned("spawn of what cannot be pickled", "mp.Process(target=lambda: None).start()", status=1),
    spawned(
        "a spawned process that exits",
        "p = mp.Process(target=sys.exit, args=(7,)); p.start(); p.join(); print(p.exitcode)",
    ),
    spawned(
        "a spawned process that is terminated",
        "import time; p = mp.Process(target=time.sleep, args=(30,)); p.start(); p.terminate(); p.join(); print(p.exitcode)",
    ),
    spawned(
        "a forked process that crashes",
        "import ctypes; p = mp.Process(target=ctypes.string_at, args=(0,)); p.start(); p.join(); print(p.exitcode)",
        method="fork",
    ),
    spawned(
        "a daemonic process at exit",
        "import time; p = mp.Process(target=time.sleep, args=(30,), daemon=True); p.start(); print('main ends')",
        method="fork",
    ),
    spawned(
        "an error in a pool", "with mp.Pool(1) as p: p.map(int, ['x'])", method="fork", status=1
    ),
    script(
        "spawn without a guard",
        "import multiprocessing as mp\np = mp.get_context('spawn').Process(target=print); p.start(); p.join(); print(p.exitcode)\n",
    ),
    Row(
        "spawn from -m",
        ("-m", "p.m"),
        files={
            "p/__init__.py": "",
            "p/m.py": "import multiprocessing as mp\ndef f(): print(__name__, __spec__ and __spec__.name)\nif __name__ == '__main__':\n    p = mp.get_context('spawn').Process(target=f); p.start(); p.join()\n",
        },
    ),
    c(
        "spawn from -c",
        "import multiprocessing as mp\np = mp.get_context('spawn').Process(target=print, args=('child',)); p.start(); p.join()",
    ),
    Row(
        "spawn from standard input",
        stdin="import multiprocessing as mp\np = mp.get_context('spawn').Process(target=print, args=('child',)); p.start(); p.join(); print(p.exitcode)\n",
    ),
    Row(
        "spawn from a folder",
        ("d",),
        files={
            "d/__main__.py": "import multiprocessing as mp, m\nif __name__ == '__main__':\n    p = mp.get_context('spawn').Process(target=m.f); p.start(); p.join()\n",
            "d/m.py": "def f(): print('child')\n",
        },
    ),
    Row(
        "spawn from a zip",
        shell="'{exe}' -m zipapp d -o a.zip && '{exe}' a.zip",
        files={
            "d/__main__.py": "import multiprocessing as mp, m\nif __name__ == '__main__':\n    p = mp.get_context('spawn').Process(target=m.f); p.start(); p.join()\n",
            "d/m.py": "def f(): print('child')\n",
        },
    ),
    Row(
        "spawn with -I",
        ("-I", "s.py"),
        files={
            "s.py": "import multiprocessing as mp, sys\ndef f(): print(sys.flags.isolated)\nif __name__ == '__main__':\n    p = mp.get_context('spawn').Process(target=f); p.start(); p.join()\n"
        },
    ),
    script(
        "an executor that breaks",
        "import os\nfrom concurrent.futures import ProcessPoolExecutor\nif __name__ == '__main__':\n    with ProcessPoolExecutor(1) as e:\n        try: e.submit(os._exit, 1).result()\n        except Exception as error: print(type(error).__name__, error)\n",
    ),
]
