"""Devices are listed, chosen, pickled and copied."""

import copy
import pickle
import sys
from pathlib import Path
from typing import Any

import nearfield as nf
import pytest


def test_devices_are_numbered_and_can_be_opened_by_index_selector_and_item() -> None:
    *adapters, host = nf.devices()
    assert (host.kind, host.backend, host.index, host.pci_address, host.selector) == ("host", "host", None, None, "host")
    assert [adapter.index for adapter in adapters] == list(range(len(adapters)))
    for adapter in (*adapters, host):
        device = nf.Flat([[1.0, 2.0]], device=adapter).device
        same = pickle.loads(pickle.dumps(device))
        for each in (device, same, nf.Device(adapter.selector)):
            assert (each.name, each.kind, each.index, each.pci_address) == (adapter.name, adapter.kind, adapter.index, adapter.pci_address)
        assert adapter.index is None or nf.Device(str(adapter.index)).index == adapter.index
        assert device.reason and adapter.name.split(" (")[0] in repr(device)
    for name in (str(len(adapters)), "no such card"):
        with pytest.raises(nf.Error, match=rf"^device: needed .*{name}.*found"):
            nf.Device(name)


def test_a_list_of_devices_is_refused() -> None:
    for names in ("0,1", "host,host", "all"):
        with pytest.raises(ValueError, match=f'^device: needed one device, given the list "{names}"$'):
            nf.Device(names)


def test_the_processor_tells_its_memory_on_linux() -> None:
    host = nf.Device("host")
    assert host.memory == nf.devices()[-1].memory
    if sys.platform == "linux":
        total = Path("/proc/meminfo").read_text().split()[1]
        assert host.memory == int(total) * 1024
    else:
        assert host.memory is None


@pytest.mark.parametrize("name", ["host", None])
def test_a_pickled_or_copied_device_is_the_same_with_its_budget(name: str | None) -> None:
    device = nf.Device(name, budget=1 << 26)
    same = pickle.loads(pickle.dumps(device))
    assert (same.name, same.kind, repr(same)) == (device.name, device.kind, repr(device))
    assert same.__getnewargs_ex__() == device.__getnewargs_ex__()
    assert same.__getnewargs_ex__()[1] == {"budget": 1 << 26}
    assert copy.copy(device) is device and copy.deepcopy([device])[0] is device


def test_no_name_is_the_best_device_and_an_empty_one_is_refused() -> None:
    index = nf.Flat([[1.0, 2.0]], device=None)
    assert index.to(None).device.name == index.device.name == nf.Device().name
    for call in (lambda: nf.Device(""), lambda: nf.Flat([[1.0, 2.0]], device=""), lambda: index.to("")):
        with pytest.raises(ValueError, match="^device: needed a name, given an empty one$"):
            call()
    adapter: Any = nf.Adapter(None, "virtual", "vulkan", "", None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="^device: needed a nearfield.Device, a name or None, given Adapter$"):
        nf.Flat([[1.0, 2.0]], device=adapter)
