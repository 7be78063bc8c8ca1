"""What the pages on memories call things, and what `core` calls them."""

from __future__ import annotations

ENERGY = {
    "log-sum-exp": "lse_dot",
    "Gaussian mixture": "lse_l2",
    "polynomial": "polynomial",
    "sparse": "sparse",
}
LAYOUT = {
    "random": "random",
    "clustered": "clustered",
    "correlated": "correlated",
    "on a circle": "circle",
}


def in_our_words(text: str) -> str:
    """A message of core as the pages put it: its patterns are the memories of the controls."""
    for theirs, ours in (
        ("patterns", "memories"),
        ("Patterns", "Memories"),
        ("pattern", "memory"),
        ("Pattern", "Memory"),
    ):
        text = text.replace(theirs, ours)
    return text
