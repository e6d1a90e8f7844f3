"""Names of memory in a real kernel: what is left behind, what grows, and what an error keeps."""

from tests.notebook.conftest import Kernel

SETUP = """
import torch, numpy as np
named_model = torch.nn.Linear(256, 256)
named_optimizer = torch.optim.Adam(named_model.parameters())
named_before = np.ones(100_000)
named_acts = []
"""
LOOP = """
for i in range(8):
    named_x = torch.randn(64, 256)
    named_acts.append(named_model(named_x).detach())
    loss = named_model(named_x).pow(2).mean()
    named_optimizer.zero_grad()
    loss.backward()
    named_optimizer.step()
"""
NAMES = "p.memory.names().dropna(subset=['name']).set_index('name')"


def test_names_of_a_cell_sum_to_resident_memory(torch_kernel: Kernel) -> None:
    torch_kernel.must(SETUP)
    reply = torch_kernel.must(f"%%profile p --quiet{LOOP}")
    assert (reply.stdout, reply.stderr) == ("", "")
    acts = torch_kernel.value(
        f"{NAMES}.loc['named_acts[]', ['bytes', 'buffers', 'bytes_per_step']].astype(int).tolist()"
    )
    assert acts == [8 * 64 * 256 * 4, 8, 64 * 256 * 4]
    assert torch_kernel.value(f"{NAMES}.loc['named_acts[]', 'created_line']") == "cell:4"
    kinds = torch_kernel.value(f"{NAMES}['kind'].to_dict()")
    assert kinds["named_model.weight"] == "parameter"
    assert kinds["named_model.weight.grad"] == "gradient"
    assert kinds["named_optimizer.state[named_model.weight]['exp_avg']"] == "optimizer"
    used = torch_kernel.value(
        "int(p.trace.metadata['tables']['memory_levels'].query('moment == 0 and device == -1')['used'].sum())"
    )
    total = torch_kernel.value("int(p.memory.names(device=-1).query('kind != \"file\"')['bytes'].sum())")
    assert total == used
    left = torch_kernel.value("p.memory.left_behind().set_index('name')['bytes'].to_dict()")
    assert left["named_acts"] == 8 * 64 * 256 * 4
    assert "named_before" not in left
    lines = torch_kernel.value(
        "p.memory.by('line', at=int(p.trace.allocations['ts'].max()))['line'].tolist()"
    )
    assert "cell:4" in lines


GROWING = """
import numpy as np
grow_arrays, grow_numbers, still = [], [], np.ones(200_000)
for i in range(12):
    grow_arrays.append(np.full(40_000, i, np.float32))
    grow_numbers.extend(float(j) for j in range(20_000))
    still = still * 1.0
    nbp.step()
"""


def test_what_grows_is_seen_without_recorded_allocations(torch_kernel: Kernel) -> None:
    torch_kernel.must("import notebook_prof as nbp")
    torch_kernel.must(f"%%profile p --quiet --steps 3:11{GROWING}")
    growth = torch_kernel.value(f"{NAMES}['bytes_per_step'].dropna().astype(int).to_dict()")
    assert growth["grow_arrays[]"] == 160_000
    numbers = growth["grow_numbers[]"] / 20_000  # a float, and its place in the list
    assert 24 <= numbers <= 40
    assert growth["still"] == 0


def test_names_where_the_recorded_steps_end_inside_a_function(torch_kernel: Kernel) -> None:
    torch_kernel.must(SETUP)
    body = LOOP.replace("\n", "\n    ")
    cell = f"def named_train():\n    inside = np.ones(50_000){body}\n    return loss\nkept = named_train()"
    torch_kernel.must(f"%%profile p --quiet --steps 2:5\n{cell}")
    names = torch_kernel.value(f"{NAMES}['bytes'].to_dict()")
    assert names["in named_train › inside"] == 400_000
    left = torch_kernel.value("p.memory.left_behind()['name'].tolist()")
    assert "named_acts" in left
    assert "in named_train" not in left


def test_what_an_error_keeps(torch_kernel: Kernel) -> None:
    torch_kernel.must(SETUP)
    cell = "def boom():\n    lost = np.ones(123_456)\n    raise MemoryError('mine')\nboom()"
    reply = torch_kernel.run(f"%%profile p --quiet\n{cell}")
    assert reply.error == "MemoryError"
    opened = "from notebook_prof.views.dashboard import dashboard_settings as settings"
    torch_kernel.must(opened)
    assert torch_kernel.value("settings(p.trace, '')['open']") == "memory"
    assert torch_kernel.value("p.trace.metadata['out_of_memory']['text']") == "mine"
    left = torch_kernel.value("p.memory.left_behind().set_index('name')['release'].to_dict()")
    assert left["traceback: boom:4"].startswith("sys.last_exc")


def test_nothing_of_a_cell_stays_alive(torch_kernel: Kernel) -> None:
    torch_kernel.must("import weakref, gc\nclass NamedThing:\n    pass")
    torch_kernel.must("gc.disable()")
    cell = "thing = NamedThing(); thing.me = [1.5]\nnamed_reference = weakref.ref(thing)"
    torch_kernel.must(f"%%profile p --quiet\n{cell}")
    torch_kernel.must("del thing")
    assert torch_kernel.value("named_reference() is None") is True
    torch_kernel.must("gc.enable()")


def test_who_allocated_at_the_peak(torch_kernel: Kernel) -> None:
    cell = "import numpy as np\nheap_parts = [np.ones(500_000) for _ in range(10)]"
    cell += "\nheap_all = np.concatenate(heap_parts)"
    torch_kernel.must(f"%%profile p --quiet --heap\n{cell}")
    heap = torch_kernel.value("p.memory.heap().set_index('line')['bytes'].to_dict()")
    assert abs(heap["cell:3"] - 40_000_000) < 1_000_000
    assert abs(heap["cell:4"] - 40_000_000) < 1_000_000
    assert torch_kernel.value("int(p.lines().set_index('line')['bytes_kept'].loc[4])") >= 40_000_000
    assert torch_kernel.value("p.memory.heap()['text'].tolist()[0]").startswith("heap_")
    reply = torch_kernel.run("%%profile p --heap --stack\npass")
    assert "profile function" in reply.message
