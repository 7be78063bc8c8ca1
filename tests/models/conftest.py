"""Tiny models far from their small start, so that layers, heads and positions matter."""

import pytest
import torch

from models.config import RegressorConfig, TrainingLaw
from models.folder import write_folder
from models.gpt2_regressor import GPT2Regressor


@pytest.fixture
def tiny_config():
    return RegressorConfig(
        n_dims=3,
        n_positions=32,
        n_embd=16,
        n_layer=2,
        n_head=2,
        target_scale=2.0,
        law=TrainingLaw(mean=-1.0, n_examples=10),
    )


@pytest.fixture
def tiny_model(tiny_config):
    torch.manual_seed(0)
    model = GPT2Regressor(tiny_config).eval().requires_grad_(False)
    for name, param in model.named_parameters():
        if param.ndim == 2 and "wte" not in name:
            param.mul_(10)
    return model


@pytest.fixture
def tiny_folder(tiny_model, tmp_path):
    folder = tmp_path / "tiny"
    write_folder(folder, tiny_model.config, tiny_model.state_dict(), {"name": "tiny"})
    return folder
