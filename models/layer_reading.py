"""Read a model as a sequence of retrievals on given prompts: `core.layers` on
`models.keys_values`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields

import numpy as np
import torch

from core.layers import HeadReadings, LayerReading, distance_moved, read_heads
from core.prompts import Prompts
from models.keys_values import Model, layer_states
from models.one_layer_attention import OneLayerAttention

TOKENS_PER_PASS = 4096  # keys, queries and scores of a pass stay within some tens of MiB


def read_layers(
    model: Model,
    prompts: Prompts,
    lengths: Sequence[int] | None = None,
    gate: Callable[[], AbstractContextManager] = nullcontext,
) -> LayerReading:
    """Every layer and head at some lengths: `queries[:, n]` asked after n pairs (default: all n).

    Prompts go through in chunks, each inside `gate()`. Raises ValueError if they do not fit the
    model or a length lies outside the prompts.
    """
    if prompts.n_dims != model.config.n_dims:
        raise ValueError(
            f"this checkpoint reads inputs of {model.config.n_dims} dimensions, the prompts have "
            f"{prompts.n_dims}; set n_dims to {model.config.n_dims} or choose another checkpoint"
        )
    parameter = next(model.parameters())
    prompts = prompts.to(parameter.device, parameter.dtype)
    chosen = list(range(prompts.n_points)) if lengths is None else sorted(set(lengths))
    if not chosen or not 0 <= chosen[0] <= chosen[-1] < prompts.n_points:
        raise ValueError(f"lengths: expected numbers in 0..{prompts.n_points - 1}, got {lengths}")
    counts = torch.tensor(chosen, device=parameter.device)
    size = max(1, TOKENS_PER_PASS // (2 * prompts.n_points))
    heads, moved, answers = [], [], []
    for begin in range(0, prompts.n_prompts, size):
        part = prompts.take(slice(begin, begin + size)).first(chosen[-1] + 1)
        with gate():
            if part.queries is part.xs:
                states = layer_states(model, part.xs, part.ys, counts=counts)
            else:
                asked = part.queries[:, counts]
                states = layer_states(model, part.xs[:, :-1], part.ys[:, :-1], asked, counts)
            readings = read_heads(
                states.queries,
                states.keys,
                states.seen,
                states.beta,
                states.own_keys,
                states.queries_after,
                interleaved=not isinstance(model, OneLayerAttention),
            )
        heads.append(readings)
        if states.residual is not None:
            moved.append(distance_moved(states.residual))
        answers.append(states.predictions.cpu().numpy())
    joined = {
        field.name: np.concatenate([getattr(part, field.name) for part in heads])
        for field in fields(HeadReadings)
    }
    return LayerReading(
        heads=HeadReadings(**joined),
        moved=np.concatenate(moved) if moved else None,
        lengths=np.array(chosen),
        predictions=np.concatenate(answers),
    )
