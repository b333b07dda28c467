"""The process as the program finds it, what it prints, and its end."""

from .row import Row, c, script

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
        "import threading, time\nthreading.Thread(target=lambda: (threading.main_thread().join(), print('late'))).start(); print('main ends')",
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
        shell="'{exe}' -u -c 'import time; time.sleep(.1); print(1)' | true; echo ${PIPESTATUS[0]}",
    ),
    Row(
        "not a terminal",
        (
            "-c",
            "import sys; print(sys.stdin.isatty(), sys.stdout.isatty(), sys.stdout.line_buffering)",
        ),
    ),
]

PROCESS += [
    c(
        "version",
        "import sys; print(sys.version, sys.version_info, sys.hexversion, sys.api_version, sys.implementation, sys.abiflags)",
    ),
    c(
        "the platform",
        "import platform, sys; print(platform.python_build(), platform.python_compiler(), sys.platform, sys.platlibdir, platform.libc_ver())",
    ),
    c(
        "what it was built with",
        "import sysconfig; v = sysconfig.get_config_vars(); print(len(v), sorted(v.items()))",
    ),
    c(
        "paths of the installation",
        "import sysconfig; print([(s, sysconfig.get_paths(s)) for s in sysconfig.get_scheme_names()], sysconfig.get_default_scheme())",
    ),
    c(
        "folders of packages",
        "import site; print(site.PREFIXES, site.getsitepackages(), site.ENABLE_USER_SITE)",
    ),
    c(
        "built-in modules",
        "import sys; print(sys.builtin_module_names, sorted(sys.stdlib_module_names) == sorted(sys.stdlib_module_names))",
    ),
    c(
        "hooks of imports",
        "import sys; print(sys.meta_path, sys.path_hooks, len(sys.path_importer_cache))",
    ),
    c(
        "hooks of the system",
        "import sys; print(sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__, sys.breakpointhook is sys.__breakpointhook__, sys.unraisablehook is sys.__unraisablehook__, sys.gettrace(), sys.getprofile())",
    ),
    c(
        "settings",
        "import gc, sys; print(sys.getrecursionlimit(), sys.getswitchinterval(), gc.isenabled(), gc.get_threshold(), sys.getdefaultencoding(), sys.getfilesystemencodeerrors(), sys.dont_write_bytecode)",
    ),
    c(
        "standard streams",
        "import sys\nfor s in sys.stdin, sys.stdout, sys.stderr: print(s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.write_through, s.fileno(), s.newlines)",
    ),
    c(
        "the original streams",
        "import sys; print(sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__)",
    ),
    c(
        "the main thread",
        "import os, threading; t = threading.current_thread(); print(t.name, t is threading.main_thread(), t.native_id == os.getpid(), threading.active_count(), threading.stack_size())",
    ),
    c("threads of the process", "import os; print(len(os.listdir('/proc/self/task')))"),
    c(
        "limits of the process",
        "import resource as r; print([(n, r.getrlimit(getattr(r, n))) for n in dir(r) if n.startswith('RLIMIT')])",
    ),
    c(
        "groups, mask and priority",
        "import os; m = os.umask(0); print(m, os.getgroups(), os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0))",
    ),
    c(
        "the process that started it",
        "import os, subprocess, sys\nprint(os.getpgrp() == os.getpgid(0), subprocess.run([sys.executable, '-c', 'import os; print(os.getppid())'], capture_output=True, text=True).stdout.strip() == str(os.getpid()))",
    ),
    c(
        "the rounding of the processor",
        "import decimal, ctypes; print(ctypes.CDLL(None).fegetround() if hasattr(ctypes.CDLL(None), 'fegetround') else 0, 0.1 + 0.2, 1e308 * 10, 5e-324)",
    ),
    c(
        "the locale of C",
        "import ctypes\nf = ctypes.CDLL(None).setlocale; f.restype = ctypes.c_char_p; print([f(i, None) for i in range(6)])",
    ),
    c(
        "Python's C interface",
        "import ctypes; p = ctypes.pythonapi; p.Py_GetVersion.restype = ctypes.c_char_p; print(p.Py_IsInitialized(), p.Py_GetVersion() != b'', ctypes.CDLL(None).Py_IsInitialized())",
    ),
    c(
        "the name of the program for C",
        "import ctypes; f = ctypes.pythonapi.Py_GetProgramFullName; f.restype = ctypes.c_wchar_p; print(f())",
    ),
    c(
        "extension modules of the library",
        "import _ssl, _sqlite3, _ctypes, _decimal, readline, zlib, _bz2, _lzma, _hashlib, _uuid, _curses; print(_ssl.OPENSSL_VERSION, _sqlite3.sqlite_version, zlib.ZLIB_RUNTIME_VERSION)",
    ),
    c(
        "installed distributions",
        "import importlib.metadata as m; print(sorted(d.name for d in m.distributions()))",
    ),
    c(
        "deep recursion",
        "import sys\nsys.setrecursionlimit(20000)\ndef f(n): return n and f(n - 1)\nprint(f(15000))",
    ),
    c(
        "deep recursion through C",
        "import sys\nsys.setrecursionlimit(4000)\nx = []\nfor i in range(3000): x = [x]\nprint(len(repr(x)))",
    ),
    c(
        "frames below the program",
        "import sys, traceback\nprint(sys._getframe().f_back, len(traceback.extract_stack()))",
    ),
    c("much output", "for i in range(20000): print(i)"),
    c(
        "output of C",
        "import ctypes, sys; l = ctypes.CDLL(None); l.puts(b'one'); print('two', flush=True); l.puts(b'three'); sys.stderr.write('four')",
    ),
    Row(
        "output of both streams",
        shell="'{exe}' -u -c 'import sys\nfor i in range(3): print(i); print(-i, file=sys.stderr)' 2>&1",
    ),
    c(
        "output in bytes",
        "import os, sys; sys.stdout.buffer.write(b'\\xff\\0'); sys.stdout.flush(); os.write(1, b'x')",
    ),
    Row("standard error that is closed", shell="'{exe}' -c '1 / 0' 2>&-; echo $?"),
    Row(
        "all streams closed",
        shell="'{exe}' -c 'import sys; open(\"f\", \"w\").write(str((sys.stdin, sys.stdout, sys.stderr)))' <&- >&- 2>&-; echo $?; cat f",
    ),
    Row("a folder as standard input", shell="'{exe}' < .; echo $?"),
    Row("a full device, unbuffered", shell="'{exe}' -u -c 'print(1)' >/dev/full; echo $?"),
    Row("standard error on a full device", shell="'{exe}' -c '1 / 0' 2>/dev/full; echo $?"),
    Row(
        "a descriptor of the parent",
        shell="exec 7<s; '{exe}' -c 'import os; print(os.read(7, 9))'",
        files={"s": "seven"},
    ),
    Row(
        "a limit of memory", shell="ulimit -v 400000; '{exe}' -c 'x = bytearray(1 << 30)'; echo $?"
    ),
    Row("a limit of open files", shell="ulimit -n 5; '{exe}' -c 'import json; print(1)'; echo $?"),
    Row(
        "a limit of the stack",
        shell="ulimit -s 512; '{exe}' -c 'import json, threading; print(1)'; echo $?",
    ),
    c(
        "atexit with arguments and unregister",
        "import atexit\nf = lambda *a, **k: print(a, k)\natexit.register(f, 1, b=2); atexit.register(print, 'x'); atexit.unregister(print)",
    ),
    c(
        "atexit registered at exit",
        "import atexit\natexit.register(lambda: atexit.register(print, 'inner')); atexit.register(print, 'outer')",
    ),
    c(
        "two atexit functions that raise",
        "import atexit\natexit.register(lambda: [][1]); atexit.register(lambda: 1 / 0); atexit.register(print, 'x')",
    ),
    c(
        "atexit before and after threads",
        "import atexit, threading, time\natexit.register(print, 'atexit')\nthreading.Thread(target=lambda: (threading.main_thread().join(), print('thread'))).start()",
    ),
    c(
        "finalizers at exit",
        "import weakref\nclass A: pass\na = A(); weakref.finalize(a, print, 'finalized'); print('body')",
    ),
    c(
        "__del__ at exit",
        "class A:\n def __init__(self, n): self.n = n\n def __del__(self): print('del', self.n)\na = A('a'); b = A('b'); b.self = b",
    ),
    c("an error in __del__ at exit", "class A:\n def __del__(self): 1 / 0\na = A(); a.a = a"),
    c(
        "modules at exit",
        "import m",
        files={"m.py": "class A:\n    def __del__(self): print('m is gone')\na = A()\n"},
    ),
    c(
        "a pool of threads at exit",
        "from concurrent.futures import ThreadPoolExecutor; import time\ne = ThreadPoolExecutor(2); e.submit(print, 'done')",
    ),
    c("a timer at exit", "import threading; threading.Timer(.01, print, ['late']).start()"),
    c(
        "daemon threads that print at exit",
        "import sys, threading, time\ndef f():\n while True: time.sleep(.001)\nfor i in range(4): threading.Thread(target=f, daemon=True).start()\nprint('main ends')",
    ),
    c(
        "a thread started at exit",
        "import atexit, threading\ndef f():\n try: t = threading.Thread(target=print, args=('ran',)); t.start(); t.join()\n except RuntimeError as e: print(e)\natexit.register(f)",
    ),
    c(
        "a thread started by the last thread",
        "import threading, time\ndef f():\n threading.Thread(target=print, args=('second',)).start(); print('first')\nthreading.Thread(target=f).start()",
    ),
    c(
        "tasks left at the end",
        "import asyncio\nasync def g():\n try: await asyncio.sleep(9)\n finally: print('cancelled')\nasync def f(): asyncio.create_task(g()); await asyncio.sleep(0)\nasyncio.run(f())",
    ),
    c(
        "a loop on a socket",
        "import asyncio\nasync def f():\n async def h(r, w): w.write(await r.readline()); await w.drain(); w.close()\n s = await asyncio.start_server(h, '127.0.0.1', 0)\n r, w = await asyncio.open_connection(*s.sockets[0].getsockname()); w.write(b'hello\\n'); print(await r.read()); w.close(); s.close()\nasyncio.run(f())",
    ),
    c(
        "a loop with a child",
        "import asyncio, sys\nasync def f():\n p = await asyncio.create_subprocess_exec(sys.executable, '-c', 'import sys; sys.exit(len(input()))', stdin=-1); await p.communicate(b'abc'); print(p.returncode)\nasyncio.run(f())",
    ),
    c(
        "a timeout of a loop",
        "import asyncio\nasync def f():\n async with asyncio.timeout(.01): await asyncio.sleep(9)\nasyncio.run(f())",
        status=1,
    ),
    script(
        "bytecode beside modules",
        "import m, os\nprint(sorted(os.listdir('.')), [f.split('.')[0] for f in os.listdir('__pycache__')])\n",
        files={"m.py": ""},
    ),
]
