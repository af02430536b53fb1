"""Where llama.cpp says that it put things."""

from __future__ import annotations

from pathlib import Path

from app.llama.context import Context
from app.llama.model import Model
from app.llama.placement import Buffer, buffers, buffers_in, bytes_on_device, clear_buffers

LOG = """
load_tensors:   CPU_Mapped model buffer size =    28.69 MiB
load_tensors:      Vulkan0 model buffer size =   104.50 MiB
load_tensors:      Vulkan1 model buffer size =     1.00 MiB
llama_kv_cache:    Vulkan0 KV buffer size =    11.25 MiB
sched_reserve:     Vulkan0 compute buffer size =    50.00 MiB
sched_reserve: Vulkan_Host compute buffer size =     4.00 MiB
sched_reserve:     Vulkan0 compute buffer size =    52.00 MiB
llama_context: Vulkan_Host  output buffer size =    12.00 MiB
"""


def test_each_buffer_counts_once_on_its_device() -> None:
    """Lost otherwise: layers that never left the CPU, or memory that is counted twice."""
    found = buffers_in(LOG.splitlines())
    mib = 1 << 20
    assert Buffer("CPU_Mapped", "model", round(28.69 * mib)) in found
    assert bytes_on_device(found, "Vulkan0", "model") == 104.5 * mib
    assert bytes_on_device(found, "Vulkan0") == (104.5 + 11.25 + 52) * mib
    assert bytes_on_device(found, "Vulkan1") == mib


def test_llama_cpp_names_what_it_loads(tiny_path: Path) -> None:
    """Lost otherwise: every size, as soon as llama.cpp changes the words of its log."""
    clear_buffers()
    with Model(tiny_path) as model, Context(model, 256):
        found = buffers()
    assert bytes_on_device(found, "CPU", "model") > 0
    assert {each.kind for each in found} == {"model", "KV", "compute", "output"}
