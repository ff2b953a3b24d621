"""The torch device that a model runs on."""

import torch

from crag_core.errors import SettingsError


def torch_device(name: str) -> torch.device:
    """The device of that name; raises SettingsError when this machine has none."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    # which of these torch raises depends on the device that is missing, and on its own build
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise SettingsError(
            f"this machine has no torch device {name}: set `device` to cpu, or to one it has"
        ) from error
    return device


def has_bfloat16_products(device: torch.device) -> bool:
    """Whether the device multiplies in bfloat16; a CPU that does not emulates it, many times slower."""
    if device.type != "cpu":
        return True
    return any(has for name, has in torch.cpu.get_capabilities().items() if "bf16" in name)
