"""What tests share: models of the repository, and tensors of every kind."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def llama():
    return ROOT / "models/tiny-llama-kjv-q8_0.gguf"


@pytest.fixture(scope="session")
def encoder():
    return ROOT / "tests/data/folders/bert"


class Legacy:
    """A producer of DLPack before 1.0."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()
