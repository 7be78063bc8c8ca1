"""Muon against the singular value decomposition and against `torch.optim.Muon` itself."""

import pytest
import torch
from torch import nn

from models.optim import Muon, orthogonalise, split_parameters


def polynomial(s: torch.Tensor, steps: int = 5) -> torch.Tensor:
    for _ in range(steps):
        s = 3.4445 * s - 4.775 * s**3 + 2.0315 * s**5
    return s


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("shape", [(5, 8, 8), (3, 8, 32), (3, 32, 8), (1, 1, 1), (2, 1, 7)])
def test_orthogonalise_acts_on_singular_values_alone(shape):
    """The iteration is an odd polynomial: U f(S / |S|) V^T with the SVD as oracle."""
    updates = randn(*shape)
    u, s, vt = torch.linalg.svd(updates, full_matrices=False)
    expected = u @ torch.diag_embed(polynomial(s / s.norm(dim=-1, keepdim=True))) @ vt
    assert torch.allclose(orthogonalise(updates), expected, atol=1e-12)


def test_it_is_nearly_the_nearest_semi_orthogonal_matrix():
    """U V^T, up to the band of the quintic's fixed interval, for all but tiny singular values."""
    updates = randn(20, 16, 48)
    u, _, vt = torch.linalg.svd(updates, full_matrices=False)
    found = orthogonalise(updates)
    values = torch.linalg.svdvals(found)
    assert values.min() > 0.65
    assert values.max() < 1.25
    assert (torch.linalg.matrix_norm(found - u @ vt, ord=2) < 0.35).all()


def test_zero_updates_stay_finite():
    assert not orthogonalise(torch.zeros(2, 4, 4)).any()


@pytest.mark.parametrize("shape", [(8, 8), (8, 24), (24, 8)])
def test_steps_equal_torch_optim_muon(shape, monkeypatch):
    """Torch's rounds to bfloat16 inside; with that one call left out its code runs in float64."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", lambda self: self.clone())
    ours, theirs = nn.Parameter(randn(*shape)), nn.Parameter(randn(*shape).T.contiguous())
    muon = Muon({"h.0.mlp.c_fc.weight": ours}, lr=0.02)
    reference = torch.optim.Muon([theirs], lr=0.02, weight_decay=0.0, momentum=0.95)
    for step in range(4):
        grad = randn(*shape, seed=step)
        ours.grad, theirs.grad = grad.clone(), grad.T.contiguous()
        muon.step(0.5)
        reference.param_groups[0]["lr"] = 0.01
        reference.step()
    assert torch.allclose(ours, theirs.T, atol=1e-12)


def test_q_k_and_v_step_separately():
    """A step of c_attn is three steps of its parts."""
    whole = nn.Parameter(randn(6, 18))
    parts = [nn.Parameter(p.clone()) for p in whole.detach().chunk(3, dim=1)]
    together = Muon({"h.0.attn.c_attn.weight": whole}, lr=0.1)
    apart = Muon({f"h.{i}.attn.c_proj.weight": p for i, p in enumerate(parts)}, lr=0.1)
    for step in range(3):
        whole.grad = randn(6, 18, seed=step)
        for part, grad in zip(parts, whole.grad.chunk(3, dim=1), strict=True):
            part.grad = grad.clone()
        together.step(1.0)
        apart.step(1.0)
    assert torch.allclose(whole, torch.cat(parts, dim=1), atol=1e-13)


def test_parameters_without_gradient_stay():
    param = nn.Parameter(randn(4, 4))
    before = param.detach().clone()
    Muon({"w": param}, lr=1.0).step(1.0)
    assert torch.equal(param, before)


def test_split_takes_each_learning_parameter_once(tiny_model):
    tiny_model.requires_grad_(True)
    tiny_model.backbone.wte.weight.requires_grad_(False)
    inside, rest = split_parameters(tiny_model)
    assert not inside.keys() & rest.keys()
    learning = {n for n, p in tiny_model.named_parameters() if p.requires_grad}
    assert inside.keys() | rest.keys() == learning
    assert len(inside) == 4 * tiny_model.config.n_layer
    assert {"read_in.weight", "read_out.weight", "backbone.wpe.weight"} <= rest.keys()
