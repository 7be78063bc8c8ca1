"""The import rules: app -> pages -> models -> core, each way only, and home stays light."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Who must not import what, at any depth of a function.
FORBIDDEN = {
    "core": {"streamlit", "transformers", "plotly", "models", "pages", "app"},
    "models": {"streamlit", "plotly", "pages", "app"},
    "pages": {"app", "tests", "benchmarks"},
}
UNPICKLING = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal"}


def sources(folder: str) -> Iterator[Path]:
    yield from sorted((ROOT / folder).rglob("*.py"))


def imported(path: Path, *, whole: bool = False) -> set[str]:
    """Names of the modules a file imports: the first part only, or whole."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; write the whole name"
            names |= {node.module or ""} | {f"{node.module}.{a.name}" for a in node.names}
    return names if whole else {n.split(".")[0] for n in names}


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_imports_go_one_way(folder):
    found = {
        (str(path.relative_to(ROOT)), name)
        for path in sources(folder)
        for name in imported(path) & FORBIDDEN[folder]
    }
    assert not found


def test_the_router_knows_pages_only():
    assert imported(ROOT / "app.py") <= {"streamlit", "pages"}


@pytest.mark.parametrize("folder", ["core", "models", "pages"])
def test_nothing_is_unpickled(folder):
    for path in sources(folder):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) in UNPICKLING:
                assert node.attr.endswith("Error"), f"{path}:{node.lineno}: {ast.unparse(node)}"
            if isinstance(node, ast.ImportFrom):
                assert node.module not in UNPICKLING, f"{path}:{node.lineno}"
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("torch.load", "np.load"):
                safe = {k.arg: ast.unparse(k.value) for k in node.keywords}
                assert safe.get("weights_only") == "True" or "allow_pickle" in safe, (
                    f"{path}:{node.lineno}: {ast.unparse(node)}"
                )
                assert safe.get("allow_pickle") in (None, "False"), path


def test_only_one_file_caches():
    for path in sources("pages"):
        if path.name != "cache.py":
            assert "st.cache_" not in path.read_text(), path


def test_figures_know_no_streamlit():
    for path in sources("pages/ui/charts"):
        assert "streamlit" not in imported(path), path
    assert "streamlit" not in imported(ROOT / "pages/ui/controls.py")


def test_no_work_on_import_of_pages():
    """Torch is imported when a page needs it, never when a page file is imported."""
    names = [p.stem for p in (ROOT / "pages").glob("*.py") if p.stem != "__init__"]
    code = (
        "import sys, json, importlib\n"
        f"for name in {names!r}: importlib.import_module('pages.' + name)\n"
        "heavy = ('torch', 'transformers', 'sklearn', 'scipy', 'pandas')\n"
        "print(json.dumps([h for h in heavy if h in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = json.loads(done.stdout.splitlines()[-1])
    # Streamlit itself brings pandas in with its data elements.
    assert set(loaded) <= {"pandas"}


def test_home_renders_without_torch():
    code = (
        "import sys, json, logging\n"
        "logging.disable(logging.CRITICAL)\n"
        "from streamlit.testing.v1 import AppTest\n"
        "at = AppTest.from_file('app.py', default_timeout=120).run()\n"
        "assert not at.exception, at.exception\n"
        "print(json.dumps([h for h in ('torch', 'transformers', 'sklearn') if h in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code.replace("'app.py'", repr(str(ROOT / "app.py")))],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout.splitlines()[-1]) == []
