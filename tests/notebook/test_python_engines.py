"""The engines of the python collector in real kernels.

Shares are compared with wide margins: on a loaded machine looks come late by tens of milliseconds, and a
cell of a second then has a few per cent of its time on a neighbouring line.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from tests.notebook.conftest import Kernel, new_kernel
from tests.py_spy_processes import attached_to

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="py-spy is used on Linux only")

QUERIES = """
import pandas as pd
def python_slices(p):
    s = p.trace.slices
    s = s[s["category"] == "python"].merge(p.trace.tracks[["track", "name", "pid"]], on="track")
    return s.rename(columns={"name_x": "name", "name_y": "thread"})
def total_s(p, text, thread=""):
    s = python_slices(p)
    s = s[s["thread"].str.contains(thread, regex=False)]
    s = s[s["name"].astype(str).str.contains(text, regex=False)]
    return float(s["dur"].sum() / 1e9)
def own_s(p, text):
    s = python_slices(p)
    return float(s.loc[s["name"].astype(str).str.contains(text, regex=False), "self_ns"].sum() / 1e9)
def threads(p):
    return sorted(set(python_slices(p)["thread"]))
def engine(p):
    return p.trace.metadata["python_engine"]
"""


@pytest.fixture(scope="module")
def spied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel whose cells wait for py-spy by ``--engine py-spy``, as long as a loaded machine needs."""
    for made in new_kernel(tmp_path_factory.mktemp("ipython")):
        made.must(QUERIES)
        made.must("from notebook_prof.collectors.python import py_spy_engine")
        made.must("py_spy_engine.PATIENCE_S = 120")
        made.must("import numpy as np; X = np.random.rand(20000, 496); g = np.random.rand(20000)")
        yield made


@pytest.mark.clock("a thread that waits for a core holds a call of Python open, which is blamed for it")
def test_what_holds_the_gil_has_its_own_line(spied: Kernel) -> None:
    spied.must(
        """
        %%profile p --quiet --engine py-spy
        def move(x): return x
        def run():
            for i in range(60):
                r = X.T @ g
                move(r)
        run()
        """
    )
    assert spied.value("engine(p)") == "py-spy"
    product, moved, whole = spied.value(
        "[own_s(p, 'r = X.T @ g'), total_s(p, 'move (cell)'), total_s(p, 'run (cell)')]"
    )
    assert product > 0.85 * whole
    assert moved < 0.1 * whole


@pytest.mark.parametrize("engine", ["py-spy", "thread"])
def test_every_thread_has_its_own_track(spied: Kernel, engine: str) -> None:
    spied.must(
        f"""
        %%profile p --quiet --engine {engine}
        import threading, time
        def crunch(n):
            s = 0
            for i in range(n):
                s += i * i
            return s
        def io():
            time.sleep(0.5)
        ts = [threading.Thread(target=crunch, args=(3_000_000,)) for _ in range(2)]
        ts.append(threading.Thread(target=io))
        [t.start() for t in ts]
        [t.join() for t in ts]
        None
        """
    )
    names = spied.value("threads(p)")
    assert len([name for name in names if "crunch" in name]) == 2
    assert len([name for name in names if "io" in name]) == 1
    assert not [name for name in names if any(own in name for own in ("IOPub", "Heartbeat", "notebook_prof"))]
    assert (
        spied.value("min(total_s(p, 'crunch (cell)', name) for name in threads(p) if 'crunch' in name)") > 0.1
    )
    # the wait belongs to the line that waits
    assert spied.value("total_s(p, 't.join()', 'MainThread') > total_s(p, 't.start()', 'MainThread')")


POOL = """
%%profile p --quiet --engine py-spy
with cf.ThreadPoolExecutor(2) as ex:
    r = list(ex.map(lambda i: hashlib.sha256(data).hexdigest(), range(40)))
len(r)
"""


def test_a_thread_pool_keeps_its_names_also_after_threads_that_ended(spied: Kernel) -> None:
    """py-spy keeps the number of a thread for the next with its identifier; which do is chance."""
    spied.must("import concurrent.futures as cf, hashlib, os, threading; data = os.urandom(40_000_000)")
    spied.must("ts = [threading.Thread(target=sum, args=(range(9_000_000),)) for _ in range(3)]")
    spied.must("[t.start() for t in ts]; [t.join() for t in ts]; None")
    spied.must(POOL)
    names = [name for name in spied.value("threads(p)") if name.startswith("ThreadPoolExecutor")]
    # the first number counts the executors of the process, of which the kernel may have had some before
    assert sorted(name.rpartition("_")[2] for name in names) == ["0", "1"], names
    assert spied.value("total_s(p, 'hashlib.sha256', 'ThreadPoolExecutor')") > 0.1


def test_threads_and_children_that_ended_before_are_left_out(spied: Kernel) -> None:
    """A warm py-spy has seen them, and does not tell that they have ended."""
    spied.must(
        """
        import multiprocessing as mp, threading, time
        def crunch(n):
            s = 0
            for i in range(n):
                s += i * i
            return s
        thread = threading.Thread(target=crunch, args=(6_000_000,))
        thread.start(); thread.join()
        with mp.get_context("fork").Pool(1) as pool:
            pool.map(crunch, [6_000_000])
        """
    )
    spied.must("%%profile p --quiet --engine py-spy\ntime.sleep(0.4)")
    assert spied.value("threads(p)") == ["MainThread"]


def test_children_are_called_what_they_are(spied: Kernel) -> None:
    spied.must(
        """
        import multiprocessing as mp, subprocess, sys, time
        # py-spy looks for children ten times a second, and needs seconds for one where others have the cores
        program = 'import time; s=0\\nfor i in range(6_000_000): s+=i\\ntime.sleep(3)'
        def work(n):
            s = 0
            for i in range(n):
                s += i * i
            time.sleep(1.5)
            return s
        """
    )
    spied.must(
        """
        %%profile p --quiet --engine py-spy
        with mp.get_context('fork').Pool(2) as pool:
            r = pool.map(work, [4_000_000] * 4)
        q = subprocess.run([sys.executable, '-c', program])
        """
    )
    names = spied.value("threads(p)")
    assert {"Pool worker 1", "Pool worker 2"} <= set(names)
    assert [name for name in names if name.startswith("process 1: python")]
    assert spied.value("total_s(p, 'work (', 'Pool worker')") > 0.2
    assert spied.value("total_s(p, 'pool.map', 'MainThread')") > 0.1
    assert spied.value("total_s(p, 'work (', 'MainThread')") == 0


def test_nothing_of_ours_or_of_the_notebook_is_in_it(spied: Kernel) -> None:
    spied.must("import pandas as pd; frame = pd.DataFrame({'a': range(20000)})")
    spied.must(
        "%%profile p --quiet --engine py-spy\nprint('x' * 10)\nsum(i * i for i in range(3_000_000))\nframe"
    )
    files = spied.value("sorted(set(p.trace.stacks['file']))")
    wrong = [
        f for f in files if any(part in f for part in ("notebook_prof", "IPython/", "ipykernel/", "zmq"))
    ]
    assert not wrong
    assert not spied.value("[n for n in set(python_slices(p)['name'].astype(str)) if '%%profile' in n]")


def test_looks_at_stacks_keep_no_tensor_alive(torch_kernel: Kernel) -> None:
    """Each free is on record: what a stack held went when its function ended, in a recorded thread."""
    torch_kernel.must(
        """
        layers = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256))
        def train(steps):
            for step in range(steps):
                loss = layers(torch.randn(64, 256)).pow(2).mean()
                layers.zero_grad(); loss.backward()
        train(2)
        """
    )
    torch_kernel.must("%%profile p --quiet --engine py-spy\ntrain(150)")
    assert "python" in torch_kernel.value("p.trace.metadata['collectors']")
    alive = torch_kernel.value("p.memory.blocks()['death_ts'].isna().sum().item()")
    assert alive <= 12, "the last step's gradients, its loss and what they need"


def test_torch_and_python_lie_on_one_track(torch_kernel: Kernel) -> None:
    torch_kernel.must(QUERIES)
    torch_kernel.must("import numpy as np\nX = np.random.rand(512, 64)\nlinear = torch.nn.Linear(64, 1)")
    torch_kernel.must("linear(torch.zeros(2, 64)).sum().backward()")
    torch_kernel.must(
        """
        %%profile p --quiet --engine py-spy
        def augment(a):
            out = []
            for row in a:
                out.append([v * 1.1 for v in row])
            return np.array(out, dtype='float32')
        for step in range(200):
            x = torch.from_numpy(augment(X))
            loss = linear(x).pow(2).mean(); loss.backward()
        """
    )
    assert torch_kernel.value("p.trace.metadata['collectors']")[:1] == ["torch"]
    tracks = torch_kernel.value(
        "sorted(set(p.trace.slices.loc[p.trace.slices['name'] == 'aten::addmm', 'track']))"
    )
    assert tracks == torch_kernel.value(
        "p.trace.tracks.loc[p.trace.tracks['name'] == 'MainThread', 'track'].tolist()"
    )
    assert torch_kernel.value("total_s(p, 'augment (cell)')") > 0
    # every operator of the forward hangs below the line that called it, or below nothing of another line
    over = torch_kernel.value(
        "(lambda s: [str(s.loc[s.loc[i, 'parent'], 'name']) for i in s.index[s['name'] == 'aten::linear'] "
        "if s.loc[i, 'parent'] is not pd.NA])(p.trace.slices)"
    )
    assert not [name for name in over if "from_numpy" in name or "augment" in name]


def test_py_spy_may_be_killed_in_the_middle(spied: Kernel) -> None:
    reply = spied.must(
        """
        %%profile p --quiet --engine py-spy
        import os, signal, time, psutil
        def first():
            time.sleep(0.5)
        def second():
            end = time.perf_counter() + 1
            while time.perf_counter() < end:
                pass
        first()
        for one in psutil.process_iter(['cmdline']):
            words = one.info['cmdline'] or ['']
            if 'py-spy' in words[0] and words[-1] == str(os.getpid()):
                os.kill(one.pid, signal.SIGKILL)
        second()
        print('done')
        """
    )
    assert reply.stdout == "done\n"
    assert "py-spy-ended" in spied.value("[issue.code for issue in p.trace.report]")
    assert spied.value("total_s(p, 'second (cell)')") > 0.4
    assert spied.value("total_s(p, 'first (cell)')") > 0.2


def test_unloading_ends_the_warm_one(spied: Kernel) -> None:
    """That interrupts leave nothing behind is in test_interrupts.py."""
    pid = int(spied.value("__import__('os').getpid()"))
    spied.must("%%profile p --quiet --engine py-spy\nsum(i * i for i in range(1_000_000))")
    spied.must("len(p.trace.slices)\n%unload_ext notebook_prof\nimport threading")
    until = time.monotonic() + 60
    ours = "[t.name for t in threading.enumerate() if t.name == 'notebook_prof py-spy']"
    while (attached_to(pid) or spied.value(ours)) and time.monotonic() < until:
        time.sleep(0.1)
    assert attached_to(pid) == []
    assert spied.value(ours) == []
    spied.must("%load_ext notebook_prof")


def test_a_cell_that_is_too_short_for_py_spy_has_the_threads_samples(spied: Kernel) -> None:
    engine = "__import__('notebook_prof.collectors.python.py_spy_engine', fromlist=['COLD_S'])"
    spied.must(f"attachment.let_cool()\nmodule = {engine}\npatience, module.COLD_S = module.COLD_S, 0.0")
    spied.must("%%profile p --quiet\nx = 1")
    spied.must("module.COLD_S = patience")
    assert spied.value("engine(p)") == "thread"
    assert "before py-spy had taken 10 samples" in spied.value("p.trace.metadata['python_engine_reason']")
    assert not spied.value("'sampled-in-process' in p.trace.report")
    spied.must("attachment.keep_warm()")


def test_it_ends_with_the_kernel(spied: Kernel) -> None:
    """Last, since this kernel is gone afterwards."""
    pid = int(spied.value("__import__('os').getpid()"))
    spied.must("recording = nbp.profile('python', engine='py-spy').start()")
    until = time.monotonic() + 60
    while not (attached := attached_to(pid)) and time.monotonic() < until:
        time.sleep(0.1)
    assert attached
    os.kill(pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(attached, timeout=60)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []
