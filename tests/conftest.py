"""What all tests share: one thread, shapes and figures checked, one place for pictures."""

import os

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ["RESHAPE_CHECK_FIGURES"] = "1"  # plotly checks every attribute of every figure

from pathlib import Path

import pytest
from jaxtyping import install_import_hook

# Every call into the engine has its shapes and types checked against its signature.
install_import_hook("core", "beartype.beartype")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def pictures() -> Path:
    """Where screenshots are kept as output of continuous integration."""
    folder = ROOT / "ci-output"
    folder.mkdir(exist_ok=True)
    return folder
