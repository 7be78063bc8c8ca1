"""Networks that somebody brings along, on every page that asks one: a picture, or a reason."""

import re

import pytest
import torch
from streamlit.testing.v1 import AppTest

from models import folder
from models.config import RegressorConfig, TrainingLaw
from models.folder import write_folder
from models.gpt2_regressor import GPT2Regressor

WANTED = {
    "checkpoints": [{"name": "uploaded", "prompts": 16}],
    "regression": [
        {"view": view, "checkpoint": "uploaded", "prompts": 8, "length": 2, "n": 1}
        for view in ("curves", "one prompt")
    ],
    "layers": [
        {"checkpoint": "uploaded", "prompts": 4, "n": 1, "view": view, "reading": reading}
        for view, reading in (
            ("every head", "margin"),
            ("every head", "energy"),
            ("heads ranked", "margin"),
            ("shift and labels", "margin"),
            ("one prompt", "margin"),
        )
    ],
    "ghosts": [
        {"checkpoint": "uploaded", "steps": 10, "examples": 1, "restarts": 2, "view": view}
        for view in ("search", "reshaped")
    ],
    "hidden_concept": [
        {"view": "predictors", "dimension": 5, "examples": 12, "prompts": 8},
    ],
}
ALL = [(page, values) for page, many in WANTED.items() for values in many]
NAMES = [
    " ".join([page, values.get("view", ""), values.get("reading", "")]) for page, values in ALL
]


def script(page, path):
    import importlib
    from pathlib import Path

    import streamlit as st

    from pages.ui import uploads

    if "checkpoints~uploaded" not in st.session_state:
        uploads.keep({p.name: p.read_bytes() for p in Path(path).iterdir()})
    importlib.import_module(f"pages.{page}").render()


def brought(path, change, n_positions=80):
    config = RegressorConfig(
        n_dims=5, n_positions=n_positions, n_embd=8, n_layer=2, n_head=2, target_scale=10.0,
        law=TrainingLaw(n_examples=20),
    )  # fmt: skip
    torch.manual_seed(0)
    weights = {k: change(v) for k, v in GPT2Regressor(config).state_dict().items()}
    write_folder(path, config, weights, {})
    return path


def visit(page, path, values):
    at = AppTest.from_function(script, default_timeout=240, args=(page, str(path)))
    for key, value in values.items():
        at.query_params[f"{page}-{key}"] = str(value)
    at.run()
    assert not at.exception, at.exception
    return at


def words(at):
    return " ".join(str(e.value) for e in (*at.markdown, *at.caption, *at.get("html")))


@pytest.mark.parametrize(("page", "values"), ALL, ids=NAMES)
def test_a_network_of_zeros_is_shown_everywhere(stand_ins, tmp_path, page, values):
    at = visit(page, brought(tmp_path, torch.zeros_like), values)
    assert not re.search(r"\b(nan|inf)\b|∞ \(|\*\*∞", words(at), re.IGNORECASE)
    assert "Every example helps" not in words(at)
    assert "average; The" not in words(at)
    if values.get("view") == "reshaped":
        assert "the claim is not tested" in words(at)
        assert "The claim holds" not in words(at)


@pytest.mark.parametrize(("page", "values"), ALL, ids=NAMES)
def test_numbers_that_run_away_are_named_and_no_traceback(
    stand_ins, tmp_path, monkeypatch, page, values
):
    """The upload refuses such a network; were it to miss one, every page still has to stand."""
    monkeypatch.setattr(folder, "_check_answers", lambda model: None)
    at = visit(page, brought(tmp_path, lambda w: 1e30 * w.sign()), values)
    said = " ".join(w.value for w in at.warning)
    assert "not finite" in said or "not finite numbers" in said
    if page == "hidden_concept":
        assert "silent past its last position" not in words(at)


def test_the_shortest_network_can_be_asked(stand_ins, tmp_path):
    path = brought(tmp_path, lambda w: w, n_positions=6)
    for page, values in ALL:
        at = visit(page, path, values)
        assert not at.warning, (page, values, at.warning[0].value)
