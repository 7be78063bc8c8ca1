"""A two-layer attention-only transformer that learns an induction head, kept step by step.

One head a layer, absolute positions, no MLP, no normalisation. With letters z_1..z_T,

    x0_t = w_E(z_t) + p_t
    x1_t = x0_t + W_OV1 sum_s A1(t,s) x0_s,    A1 = causal softmax(x0_s . W_K1 x0_t)
    logits_t = W_U (W_F x0_t + W_O2 sum_s A2(t,s) W_V2 x1_s),  A2 = causal softmax(x1_s . W_K2 x1_t)

As in Bietti et al. (2023), embeddings, W_U, W_OV1 and W_V2 are random and stay so; the three
memories W_K1, W_K2, W_O2 and the bigram memory W_F start at 0 and learn. So each can be read: its
probe is the share of its entries whose right association is the strongest.

A `Training` holds the four learnt matrices at several steps and the frozen ones once.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from core.bigrams import TriggerLaw, V
from models.config import InductionConfig

FROZEN = ("embed", "unembed", "position", "value1", "value2")
LEARNT = ("key1", "key2", "output2", "bigram")


class InductionTransformer(nn.Module):
    """`logits, A1, A2 = model(tokens)`: at every position, the letter after it."""

    embed: Tensor
    unembed: Tensor
    position: Tensor
    value1: Tensor
    value2: Tensor
    key1: nn.Parameter
    key2: nn.Parameter
    output2: nn.Parameter
    bigram: nn.Parameter

    def __init__(self, n_embd: int, n_positions: int, generator: torch.Generator | None = None):
        super().__init__()

        def rows(n: int) -> Tensor:  # of norm near 1, nearly orthogonal
            return torch.randn(n, n_embd, generator=generator) / n_embd**0.5

        sizes = {"embed": V, "unembed": V, "position": n_positions}
        for name in FROZEN:
            self.register_buffer(name, rows(sizes.get(name, n_embd)))
        for name in LEARNT:
            setattr(self, name, nn.Parameter(torch.zeros(n_embd, n_embd)))

    def forward(
        self, tokens: Int[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T V"], Float[Tensor, "B T T"], Float[Tensor, "B T T"]]:
        most = len(self.position)
        if tokens.shape[1] > most:
            raise ValueError(
                f"This model was trained on {most} positions, the prompt has {tokens.shape[1]} "
                f"letters. Give it at most {most}."
            )
        x0 = self.embed[tokens] + self.position[: tokens.shape[1]]  # (B, T, D)
        hidden = torch.ones(tokens.shape[1], tokens.shape[1]).triu(1).bool()

        def attend(x: Tensor, key: Tensor) -> Tensor:
            scores = (x @ key.T) @ x.transpose(1, 2)  # (B, T, T): row t asks, column s answers
            return scores.masked_fill(hidden, -torch.inf).softmax(-1)

        A1 = attend(x0, self.key1)
        x1 = x0 + A1 @ x0 @ self.value1.T
        A2 = attend(x1, self.key2)
        read = x0 @ self.bigram.T + A2 @ (x1 @ self.value2.T) @ self.output2.T
        return read @ self.unembed.T, A1, A2


class Training(nn.Module):
    """All snapshots of one training as a module, so that it is loaded like any checkpoint."""

    def __init__(self, config: InductionConfig):
        super().__init__()
        self.config = config
        for name, shape in config.shapes().items():
            self.register_buffer(name, torch.zeros(shape))

    def at(self, snapshot: int) -> InductionTransformer:
        """The model as it was at `config.steps[snapshot]`."""
        model = InductionTransformer(self.config.n_embd, self.config.n_positions)
        state = {name: getattr(self, name) for name in FROZEN}
        state |= {name: getattr(self, name)[snapshot] for name in LEARNT}
        model.load_state_dict(state)
        return model.eval().requires_grad_(False)


def probes(model: InductionTransformer, law: TriggerLaw) -> dict[str, float]:
    """Share of right associations of each memory, 0 to 1 (equations.md sec. 7).

    - wk0: positions t = 2..T whose strongest key in W_K1 among 1..t is t - 1.
    - wk1: triggers q whose strongest key in W_K2 among the `W_OV1 w_E(u)` of all letters is u = q.
    - wo1: letters v that can be outputs whose strongest read-out through W_O2 is v itself.
    """
    p, E = model.position, model.embed
    positions = torch.arange(1, len(p))
    scores = (p @ model.key1.T @ p.T).masked_fill(torch.ones(len(p), len(p)).triu(1).bool(), -1e30)
    wk0 = scores[1:].argmax(1) == positions - 1
    triggers, outputs = (torch.from_numpy(ids) for ids in (law.trigger_ids, law.output_ids))
    keys = E[triggers] @ model.key2.T @ (E @ model.value1.T).T  # (K, V)
    read = E[outputs] @ model.value2.T @ model.output2.T @ model.unembed.T  # (O, V)
    found = {
        "wk0": wk0,
        "wk1": keys.argmax(1) == triggers,
        "wo1": read.argmax(1) == outputs,
    }
    return {name: float(right.float().mean()) for name, right in found.items()}


@torch.no_grad()
def read_prompt(
    training: Training, tokens: Int[np.ndarray, " T"]
) -> tuple[Float[np.ndarray, "S V"], Float[np.ndarray, "S T T"], Float[np.ndarray, "S T T"]]:
    """Last logits and both attention maps for one prompt, at every snapshot."""
    asked = torch.from_numpy(tokens)[None]
    found = [training.at(i)(asked) for i in range(len(training.config.steps))]
    logits, A1, A2 = (torch.cat(part).numpy() for part in zip(*found, strict=True))
    return logits[:, -1], A1, A2
