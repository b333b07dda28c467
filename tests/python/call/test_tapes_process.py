"""What kernel tapes do in a process: threads, a fork, and a torch that exports no BLAS."""

import os
import subprocess
import textwrap
import threading

import pytest
import torch
import tracehost
from tracehost.testing import assert_traces


def chain(x, w):
    for _ in range(20):
        x = torch.tanh(x @ w) * 1.01 + 0.1
    return x


def test_each_thread_gets_its_own_results():
    f = tracehost.function(chain, optimize="exact")
    w = torch.randn(6, 6)
    wrong = []
    start = threading.Barrier(8)

    def calls(seed):
        numbers = torch.Generator().manual_seed(seed)
        start.wait()
        with torch.no_grad():
            for i in range(60):
                x = torch.randn(1 + i % 3, 6, generator=numbers)
                if not torch.equal(f(x, w), chain(x, w)):
                    wrong.append((seed, i))

    with torch.no_grad():
        for size in (1, 2, 3):
            f(torch.randn(size, 6), w)
    threads = [threading.Thread(target=calls, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert all("a tape" in s.runs_by for s in f.specializations())


def test_a_thousand_lengths_hold_no_more_memory_than_four():
    f = tracehost.function(chain, optimize="exact", reduce_retracing=True)
    w = torch.randn(6, 6)
    with assert_traces(f, 2):
        with torch.no_grad():
            for length in range(2, 1002):
                x = torch.randn(length, 6)
                for _ in range(3 if length % 50 == 0 else 1):
                    assert torch.equal(f(x, w), chain(x, w))


def test_a_fork_while_another_thread_runs_a_tape():
    f = tracehost.function(chain, optimize="exact")
    w, x = torch.randn(6, 6), torch.randn(4, 6)
    expected = chain(x, w)
    ends = threading.Event()

    def calls():
        with torch.no_grad():
            while not ends.is_set():
                f(x, w)

    with torch.no_grad():
        f(x, w)
    other = threading.Thread(target=calls)
    other.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                with torch.no_grad():
                    equal = all(torch.equal(f(x, w), expected) for _ in range(10))
                os._exit(0 if equal and "a tape" in f.specializations()[0].runs_by else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        ends.set()
        other.join()


def test_a_fork_while_another_thread_traces():
    inside, leave = threading.Event(), threading.Event()

    @tracehost.function
    def f(x):
        inside.set()
        leave.wait()
        return x * 2

    other = threading.Thread(target=f, args=(torch.ones(2),))
    other.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        leave.set()  # the trace of the parent's thread is not waited for
        os._exit(0 if f(torch.ones(2)).tolist() == [2, 2] and f.tracing_count() == 1 else 1)
    status = os.waitpid(child, 0)[1]
    leave.set()
    other.join()
    assert status == 0
    assert f(torch.ones(2)).tolist() == [2, 2]


# dlsym() finds no product of a BLAS in libtorch: as in a torch that was built with another one.
HIDES = """
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <string.h>
    typedef void *(*find)(void *, const char *);
    void *dlsym(void *library, const char *name) {
        static find original;
        if (!original)
            original = (find)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
        if (!original)
            original = (find)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
        if (!strcmp(name, "sgemm_") || !strcmp(name, "dgemm_"))
            return 0;
        return original(library, name);
    }
"""
PRODUCTS = """
    import ctypes, sys, torch, torch.nn.functional as F, tracehost

    def body(x, w, b):
        return F.linear(x, w, b), x @ w, torch.addmm(b, x, w), F.linear(x.t(), w), torch.bmm(x[None], w[None])

    f = tracehost.function(body, optimize="exact")
    with torch.no_grad():
        for dtype in (torch.float32, torch.float64):
            w, b = torch.randn(5, 5, dtype=dtype), torch.randn(5, dtype=dtype)
            for _ in range(5):
                x = torch.randn(5, 5, dtype=dtype)
                for ours, eager in zip(f(x, w, b), body(x, w, b), strict=True):
                    assert torch.equal(ours, eager)
    print(*(s.runs_by for s in f.specializations()), sep=", ")
"""


@pytest.mark.parametrize("hidden", [False, True], ids=["as it is", "hidden"])
def test_a_torch_without_the_names_of_a_blas(run_host, tmp_path, hidden):
    (tmp_path / "hides.c").write_text(textwrap.dedent(HIDES))
    (tmp_path / "products.py").write_text(textwrap.dedent(PRODUCTS))
    command = ["cc", "-shared", "-fPIC", "-o", "hides.so", "hides.c", "-ldl"]
    subprocess.run(command, cwd=tmp_path, check=True)
    env = {"LD_PRELOAD": str(tmp_path / "hides.so")} if hidden else {}
    done = run_host("products.py", env=env)
    assert (done.stdout, done.stderr) == ("a tape (4 of 5 ops), a tape (4 of 5 ops)\n", "")
