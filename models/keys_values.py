"""Inside a transformer: the keys, values and queries of every layer and head for given prompts.

Asked tokens stand apart from the tokens they see. A prompt is `T = 2 t` memory tokens x1, y1, ...,
xt, yt (causal among themselves) and Q asked tokens; asked token q sees the memory of its first
`counts[q]` pairs and itself, and nobody sees it. That is what an x token sees in the ordinary
causal pass, so one pass answers many queries at one length, or one at every length. `layer_states`
equals Hugging Face's eager attention (a test holds that); weights never leave eval mode and
nothing of a model is changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from models.gpt2_regressor import GPT2Regressor
from models.one_layer_attention import OneLayerAttention

Model = GPT2Regressor | OneLayerAttention


@dataclass(frozen=True)
class LayerStates:
    """Every layer and head of a pass. A `OneLayerAttention` has L = H = 1 and no own token.

    Softmax scores are `beta * queries @ keys`; T counts tokens (GPT-2) or pairs (one layer).
    """

    keys: Float[Tensor, "B L H T d"]
    values: Float[Tensor, "B L H T v"]
    queries: Float[Tensor, "B L H Q d"]
    own_keys: Float[Tensor, "B L H Q d"] | None  # an asked token also sees itself
    own_values: Float[Tensor, "B L H Q v"] | None
    # what the same head would ask again after this layer's attention has written to the residual
    queries_after: Float[Tensor, "B L H Q d"] | None
    residual: Float[Tensor, "B L1 Q E"] | None  # before every block and after the last
    seen: Bool[Tensor, "Q T"]
    beta: float
    predictions: Float[Tensor, "B Q"]


def ask(
    model: Model,
    xs: Float[Tensor, "B t D"],
    ys: Float[Tensor, "B t"],
    queries: Float[Tensor, "B Q D"],
) -> Float[Tensor, "B Q"]:
    """Answers to all queries after all t pairs (t = 0: none), differentiable in every argument.

    Equals `model(xs + query, ys + anything)[:, -1]` asked one by one. The call that
    `core.ghosts.construct` tunes against. Raises ValueError if t pairs do not fit the positions.
    """
    if isinstance(model, OneLayerAttention):
        return model.ask(xs, ys, queries)
    n_pairs, n_asked = xs.shape[1], queries.shape[1]
    check_pairs(model, n_pairs)
    embeds = torch.cat((model.embed(xs, ys), model.read_in(queries)), dim=1)
    counts = torch.full((n_asked,), n_pairs, device=xs.device)
    hidden = model.backbone(
        inputs_embeds=embeds,
        position_ids=_positions(n_pairs, counts)[None],
        attention_mask=_mask(n_pairs, counts, embeds)[None, None],
        use_cache=False,
    ).last_hidden_state
    return model.read_out(hidden[:, 2 * n_pairs :])[..., 0] * model.config.target_scale


@torch.no_grad()
def layer_states(
    model: Model,
    xs: Float[Tensor, "B t D"],
    ys: Float[Tensor, "B t"],
    queries: Float[Tensor, "B Q D"] | None = None,
    counts: Int[Tensor, " Q"] | None = None,
) -> LayerStates:
    """Keys, values and queries of every layer.

    Query q is asked after the first `counts[q]` pairs (all t by default). Without `queries` the
    inputs are asked at their own places, `xs[:, counts]` (every x by default): the same answers as
    `queries=xs[:, counts]` from one pass over fewer tokens. Raises ValueError if t pairs do not fit
    the positions of a GPT-2, or a count is out of range.
    """
    n_pairs = xs.shape[1]
    n_asked = (n_pairs if counts is None else len(counts)) if queries is None else queries.shape[1]
    if counts is None:
        whole = torch.full((n_asked,), n_pairs, device=xs.device)
        counts = torch.arange(n_asked, device=xs.device) if queries is None else whole
    most = n_pairs - 1 if queries is None else n_pairs
    if counts.shape != (n_asked,) or bool(((counts < 0) | (counts > most)).any()):
        raise ValueError(f"counts: expected {n_asked} numbers in 0..{most}, one for each query")
    if isinstance(model, OneLayerAttention):
        asked_inputs = xs[:, counts] if queries is None else queries
        return _one_layer_states(model, xs, ys, asked_inputs, counts)

    backbone = model.backbone
    blocks: Any = backbone.h  # GPT2Block each, which nn.ModuleList hides from the type checker
    beta = float(blocks[0].attn.scaling)
    if queries is None:  # x tokens of an ordinary causal pass, the last of which ends it
        n_pairs -= 1
        check_pairs(model, n_pairs)
        hidden = model.embed(xs, ys)[:, :-1] + backbone.wpe.weight[: 2 * n_pairs + 1]
        asked, mask = 2 * counts, None
    else:
        check_pairs(model, n_pairs)
        hidden = torch.cat((model.embed(xs, ys), model.read_in(queries)), dim=1)
        hidden = hidden + backbone.wpe(_positions(n_pairs, counts))
        asked = torch.arange(2 * n_pairs, hidden.shape[1], device=xs.device)
        mask = _mask(n_pairs, counts, hidden)
    n_tokens = 2 * n_pairs
    layers, residual = [], [hidden[:, asked]]
    for block in blocks:
        q, k, v = _split(block, block.ln_1(hidden))  # (B, H, T + Q, d)
        retrieved = nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=mask is None, scale=beta
        )
        hidden = hidden + block.attn.c_proj(retrieved.transpose(1, 2).flatten(2))
        again = _split(block, block.ln_1(hidden[:, asked]))[0]
        memory = (part[..., :n_tokens, :] for part in (k, v))
        layers.append((*memory, *(part[..., asked, :] for part in (q, k, v)), again))
        hidden = hidden + block.mlp(block.ln_2(hidden))
        residual.append(hidden[:, asked])
    parts = [torch.stack(part, dim=1) for part in zip(*layers, strict=True)]
    answers = model.read_out(backbone.ln_f(residual[-1]))[..., 0] * model.config.target_scale
    token = torch.arange(n_tokens, device=xs.device)
    return LayerStates(
        keys=parts[0],
        values=parts[1],
        queries=parts[2],
        own_keys=parts[3],
        own_values=parts[4],
        queries_after=parts[5],
        residual=torch.stack(residual, dim=1),
        seen=token[None] < 2 * counts[:, None],
        beta=beta,
        predictions=answers,
    )


@torch.no_grad()
def answer_from(
    model: Model,
    keys: Float[Tensor, "L H T d"],
    values: Float[Tensor, "L H T v"],
    queries: Float[Tensor, "Q D"],
) -> Float[Tensor, " Q"]:
    """Answers where every layer retrieves from the given memory instead of a prompt's own.

    With the keys and values of a prompt these are the model's answers after that prompt; with
    reshaped ghosts they are the end-to-end check of reshaping. For GPT-2, T = 2 t tokens, and a
    query carries the position that follows them and sees itself.
    """
    if isinstance(model, OneLayerAttention):
        scores = model.beta * model.queries(queries) @ keys[0, 0].mT
        return model.read(scores.softmax(-1) @ values[0, 0])
    backbone = model.backbone
    hidden = model.read_in(queries) + backbone.wpe.weight[keys.shape[2]]  # (Q, E)
    blocks: Any = backbone.h
    for block, memory_keys, memory_values in zip(blocks, keys, values, strict=True):
        q, k, v = (part[0] for part in _split(block, block.ln_1(hidden)[None]))  # (H, Q, d)
        scores = torch.cat((q @ memory_keys.mT, (q * k).sum(-1, keepdim=True)), dim=-1)
        weights = (block.attn.scaling * scores).softmax(-1)
        retrieved = weights[..., :-1] @ memory_values + weights[..., -1:] * v
        hidden = hidden + block.attn.c_proj(retrieved.transpose(0, 1).flatten(1))
        hidden = hidden + block.mlp(block.ln_2(hidden))
    return model.read_out(backbone.ln_f(hidden))[..., 0] * model.config.target_scale


def check_pairs(model: GPT2Regressor, n_pairs: int) -> None:
    """ValueError if so many pairs leave no position for the query."""
    if n_pairs > model.config.max_examples:
        raise ValueError(
            f"this checkpoint has {model.config.n_positions} positions, two for each example: at "
            f"most {model.config.max_examples} in-context examples fit, got {n_pairs}; take fewer"
        )


def _one_layer_states(
    model: OneLayerAttention, xs: Tensor, ys: Tensor, queries: Tensor, counts: Tensor
) -> LayerStates:
    keys, values, asked = model.keys(xs), model.values(xs, ys), model.queries(queries)
    seen = torch.arange(xs.shape[1], device=xs.device) < counts[:, None]  # (Q, t)
    scores = (model.beta * asked @ keys.mT).masked_fill(~seen, torch.finfo(xs.dtype).min)
    answers = model.read((scores.softmax(-1) * seen) @ values)
    return LayerStates(
        keys=keys[:, None, None],
        values=values[:, None, None],
        queries=asked[:, None, None],
        own_keys=None,
        own_values=None,
        queries_after=None,
        residual=None,
        seen=seen,
        beta=float(model.beta),
        predictions=answers,
    )


def _split(block: Any, normed: Float[Tensor, "B T E"]) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v `(B, H, T, d)` of a GPT-2 block."""
    q, k, v = (
        part.unflatten(-1, (block.attn.num_heads, -1)).transpose(1, 2)
        for part in block.attn.c_attn(normed).chunk(3, dim=-1)
    )
    return q, k, v


def _positions(n_pairs: int, counts: Int[Tensor, " Q"]) -> Int[Tensor, " N"]:
    """A query carries the position of the x token that would follow its pairs."""
    return torch.cat((torch.arange(2 * n_pairs, device=counts.device), 2 * counts))


def _mask(n_pairs: int, counts: Int[Tensor, " Q"], like: Tensor) -> Float[Tensor, "N N"]:
    """Additive mask: memory tokens causal, asked tokens see their pairs and themselves."""
    n_tokens, n_asked = 2 * n_pairs, len(counts)
    token = torch.arange(n_tokens, device=like.device)
    seen = torch.zeros(n_tokens + n_asked, n_tokens + n_asked, dtype=torch.bool, device=like.device)
    seen[:n_tokens, :n_tokens] = token[None] <= token[:, None]
    seen[n_tokens:, :n_tokens] = token[None] < 2 * counts[:, None]
    seen[n_tokens:, n_tokens:] = torch.eye(n_asked, dtype=torch.bool, device=like.device)
    mask = torch.zeros(seen.shape, dtype=like.dtype, device=like.device)
    return mask.masked_fill(~seen, torch.finfo(like.dtype).min)
