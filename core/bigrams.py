"""Letters whose follower is a bigram law, except after triggers: there it is fixed anew per prompt.

The data of Bietti et al. (2023) and Wang & Sato (2024). The law of the rest is ours, because it is
easily said: after a letter, the next one of the alphabet (its favourite, `a` after `z`) is `odds`
times as likely as any other single letter. After a trigger always comes one letter, its output,
drawn per prompt from the letters that are no triggers: only the context can tell which.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

LETTERS = "abcdefghijklmnopqrstuvwxyz"
V = len(LETTERS)
MAX_LENGTH = 4096


@dataclass(frozen=True)
class TriggerLaw:
    """Which letters are triggers, and the odds of the favourite after the others."""

    triggers: str = "q"
    odds: float = 10.0

    def __post_init__(self) -> None:
        check_triggers(self.triggers)
        if len(self.triggers) > V - 2:
            raise ValueError(f"at most {V - 2} letters may be triggers, got {len(self.triggers)}")
        check_odds(self.odds)

    @property
    def trigger_ids(self) -> Int[np.ndarray, " K"]:
        return encode(self.triggers, least=0)

    @property
    def output_ids(self) -> Int[np.ndarray, " O"]:
        """Letters a trigger's output is drawn from: those that are no triggers."""
        return np.setdiff1d(np.arange(V), self.trigger_ids)


def check_triggers(triggers: str) -> None:
    """Different lower-case letters; none at all is allowed."""
    if not isinstance(triggers, str) or set(triggers) - set(LETTERS):
        raise ValueError(f"triggers must be letters a to z, got {str(triggers)[:40]!r}")
    if len(set(triggers)) < len(triggers):
        raise ValueError(f"each trigger must stand once, got {triggers[:40]!r}")


def check_odds(odds: float) -> None:
    if not 1 <= odds < math.inf:
        raise ValueError(f"odds must be a number of at least 1, got {odds!r}")


def encode(text: str, least: int = 2, most: int = MAX_LENGTH) -> Int[np.ndarray, " T"]:
    """Numbers 0 to 25 of the letters in a text; blanks are left out, capitals are made small."""
    letters = "".join(text.split()).lower()
    for at, letter in enumerate(letters):
        if letter not in LETTERS:
            raise ValueError(
                f"A prompt is made of the letters a to z; letter {at + 1} is {letter!r}. "
                "Replace it or leave it out."
            )
    if not least <= len(letters) <= most:
        raise ValueError(
            f"A prompt here has {least} to {most} letters, got {len(letters)}. "
            + ("Type more letters." if len(letters) < least else "Shorten it.")
        )
    return np.array([LETTERS.index(letter) for letter in letters], dtype=np.int64)


def decode(tokens: Int[np.ndarray, " T"]) -> str:
    """The letters again, without blanks."""
    return "".join(LETTERS[t] for t in tokens)


def favourite(token: int) -> int:
    """The likeliest follower under the bigram law: the next letter of the alphabet."""
    return (token + 1) % V


def bigram_log_odds(odds: float) -> Float[np.ndarray, "V V"]:
    """`log pi(v|u)` above its smallest entry: `log odds` where v is the favourite of u, else 0."""
    check_odds(odds)
    return np.log(odds) * np.roll(np.eye(V), 1, axis=1)


def bigram_law(odds: float) -> Float[np.ndarray, "V V"]:
    """`pi(v|u)`; each row sums to 1, and so does each column: letters are equally common."""
    weights = np.exp(bigram_log_odds(odds))
    return weights / weights.sum(axis=1, keepdims=True)


def sample(
    law: TriggerLaw, n_prompts: int, length: int, rng: np.random.Generator
) -> tuple[Int[np.ndarray, "B T"], Int[np.ndarray, "B V"]]:
    """Prompts, and the output of each letter in each (-1 where the letter is no trigger)."""
    outputs = np.full((n_prompts, V), -1)
    drawn = rng.choice(law.output_ids, (n_prompts, len(law.triggers)))
    outputs[:, law.trigger_ids] = drawn
    tokens = np.empty((n_prompts, length), dtype=np.int64)
    tokens[:, 0] = rng.integers(V, size=n_prompts)
    # pi = (1 - p) uniform + p favourite has exactly the odds asked for.
    p = (law.odds - 1) / (law.odds - 1 + V)
    likely = rng.random((n_prompts, length)) < p
    anyone = rng.integers(V, size=(n_prompts, length))
    rows = np.arange(n_prompts)
    for t in range(1, length):
        before = tokens[:, t - 1]
        bigram = np.where(likely[:, t], (before + 1) % V, anyone[:, t])
        fixed = outputs[rows, before]
        tokens[:, t] = np.where(fixed >= 0, fixed, bigram)
    return tokens, outputs


def draw_prompt(
    law: TriggerLaw, length: int, rng: np.random.Generator, most: int = 4000
) -> Int[np.ndarray, " T"]:
    """A prompt of the law that ends in a trigger which has stood in it before.

    It is cut out of one long draw. Raises ValueError if no stretch of `most` letters has one.
    """
    tokens = sample(law, 1, length + most, rng)[0][0]
    ends = np.flatnonzero(np.isin(tokens, law.trigger_ids))
    for end in ends[ends >= length - 1]:
        prompt = tokens[end - length + 1 : end + 1]
        if (prompt[:-1] == prompt[-1]).any():
            return prompt
    raise ValueError(
        f"No draw of {length} letters ends in a trigger that came before (triggers: "
        f"{law.triggers!r}). Make the prompt longer or name more triggers."
    )


def repeated_triggers(tokens: Int[np.ndarray, "B T"], law: TriggerLaw) -> Bool[np.ndarray, "B T"]:
    """Where a trigger stands that has stood before: from here on the context tells its output."""
    seen = np.cumsum(np.eye(V, dtype=np.int64)[tokens], axis=1)
    again = np.take_along_axis(seen, tokens[..., None], axis=2)[..., 0] > 1
    return again & np.isin(tokens, law.trigger_ids)


def least_losses(tokens: Int[np.ndarray, "B T"], law: TriggerLaw) -> Float[np.ndarray, "B T"]:
    """Mean loss in nats of the best possible prediction of the letter after each position.

    After a letter that is no trigger the entropy of the bigram law, after a trigger seen for the
    first time `log` of the number of outputs, after a repeated one 0.
    """
    row = bigram_law(law.odds)[0]
    entropy = float(-(row * np.log(row)).sum())
    trigger = np.isin(tokens, law.trigger_ids)
    first = trigger & ~repeated_triggers(tokens, law)
    return np.where(trigger, np.where(first, np.log(len(law.output_ids)), 0.0), entropy)
