"""What holds of every computation a page asks for."""

import ast
from pathlib import Path

CACHE = Path(__file__).parents[2] / "pages/ui/cache.py"


def test_every_study_in_torch_runs_on_one_thread():
    """Two threads of one operation on two busy cores wait for each other: 0.2 s became 100 s."""
    tree = ast.parse(CACHE.read_text())
    studies = {"landscape", "error_sweep", "phase_map", "reshaping_study"}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in studies:
            called = {ast.unparse(n.func) for n in ast.walk(node) if isinstance(n, ast.Call)}
            assert "torch_on_one_thread" in called, node.name
            studies = studies - {node.name}
    assert not studies
