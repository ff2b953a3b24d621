"""Debian's Prometheus, which `make debian` installs."""

import shutil

import pytest


@pytest.fixture(scope="session")
def promtool() -> str:
    return program("promtool")


@pytest.fixture(scope="session")
def prometheus() -> str:
    return program("prometheus")


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: make debian")
    return found
