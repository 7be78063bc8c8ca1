"""What all tests share: one thread, shapes and figures checked, one place for pictures."""

import os

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("RESHAPE_WORKERS", "0")  # tests put their own models into this process
os.environ["RESHAPE_CHECK_FIGURES"] = "1"  # plotly checks every attribute of every figure
os.environ["STREAMLIT_CLIENT_SHOW_ERROR_DETAILS"] = "full"  # a failing page test says why

from pathlib import Path  # noqa: E402 - the environment comes first

import pytest  # noqa: E402
from jaxtyping import install_import_hook  # noqa: E402

import tests.typecheck  # noqa: E402, F401 - the hook below finds it by name

# Every call into the engine has its shapes and types checked against its signature.
install_import_hook("core", "tests.typecheck.checked")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def pictures() -> Path:
    """Where screenshots are kept as output of continuous integration."""
    folder = ROOT / "ci-output"
    folder.mkdir(exist_ok=True)
    return folder
