"""GPT-2 as an in-context regressor (Garg et al. 2022; CAMR sec. 4): read-in, backbone, read-out.

Tokens are x1, y1, x2, y2, ...; y is padded to (y, 0, ..., 0); the output at x_i predicts y_i.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import GPT2Config, GPT2Model

from models.config import RegressorConfig


class GPT2Regressor(nn.Module):
    """`preds = model(xs, ys)`: preds[:, i] sees the pairs before i and x_i, never y_i.

    Targets are divided by `config.target_scale` on the way in and multiplied by it on the way out,
    so callers live in the units of y.
    """

    def __init__(self, config: RegressorConfig):
        super().__init__()
        self.config = config
        self.read_in = nn.Linear(config.n_dims, config.n_embd)
        self.backbone = GPT2Model(
            GPT2Config(
                vocab_size=1,  # tokens are vectors; the word embedding is never used
                n_positions=config.n_positions,
                n_embd=config.n_embd,
                n_layer=config.n_layer,
                n_head=config.n_head,
                activation_function="gelu_pytorch_tanh",  # gelu_new in one kernel: 1.4 x faster
                resid_pdrop=0.0,
                embd_pdrop=0.0,
                attn_pdrop=0.0,
                use_cache=False,
                bos_token_id=0,
                eos_token_id=0,
            )
        )
        self.backbone.wte.weight.requires_grad_(False)
        self.read_out = nn.Linear(config.n_embd, 1)

    def embed(self, xs: Float[Tensor, "B P D"], ys: Float[Tensor, "B P"]) -> Float[Tensor, "B T E"]:
        """Read-in of the interleaved tokens, T = 2 P, before positions are added."""
        y_tokens = torch.zeros_like(xs)
        y_tokens[..., 0] = ys / self.config.target_scale
        tokens = torch.stack((xs, y_tokens), dim=2).flatten(1, 2)  # (B, 2 P, D)
        with torch.autocast(tokens.device.type, enabled=False):  # numbers are read in full
            return self.read_in(tokens)

    def forward(
        self,
        xs: Float[Tensor, "B P D"],
        ys: Float[Tensor, "B P"],
        queries: Float[Tensor, "B P D"] | None = None,
        offset: Int[Tensor, ""] | int = 0,
    ) -> Float[Tensor, "B P"]:
        """Predictions at every length in one pass.

        With `queries`, preds[:, i] answers queries[:, i] after the first i pairs instead of x_i:
        the queries are appended as P more tokens that carry the position of x_i, see the first i
        pairs and themselves, and are seen by nobody. `offset` shifts all positions (random in
        training of the offset checkpoints).
        """
        n_pairs = xs.shape[1]
        embeds = self.embed(xs, ys)
        positions = torch.arange(2 * n_pairs, device=xs.device) + offset
        mask = None
        if queries is not None:
            embeds = torch.cat((embeds, self.read_in(queries)), dim=1)  # (B, 3 P, E)
            positions = torch.cat((positions, positions[::2]))
            mask = query_mask(n_pairs, embeds)
        hidden = self.backbone(
            inputs_embeds=embeds, position_ids=positions[None], attention_mask=mask, use_cache=False
        ).last_hidden_state
        asked = hidden[:, ::2] if queries is None else hidden[:, 2 * n_pairs :]
        with torch.autocast(asked.device.type, enabled=False):  # and said in full
            return self.read_out(asked)[..., 0] * self.config.target_scale


def query_mask(n_pairs: int, like: Tensor) -> Float[Tensor, "1 1 T T"]:
    """Additive mask of 2 P causal tokens and P queries; query i sees the tokens before 2 i."""
    n_tokens = 2 * n_pairs
    token = torch.arange(n_tokens, device=like.device)
    query = torch.arange(n_pairs, device=like.device)
    seen = torch.zeros(n_tokens + n_pairs, n_tokens + n_pairs, dtype=torch.bool, device=like.device)
    seen[:n_tokens, :n_tokens] = token[None] <= token[:, None]
    seen[n_tokens:, :n_tokens] = token[None] < 2 * query[:, None]
    seen[n_tokens:, n_tokens:] = query[None] == query[:, None]
    mask = torch.zeros(seen.shape, dtype=like.dtype, device=like.device)
    return mask.masked_fill(~seen, torch.finfo(like.dtype).min)[None, None]
