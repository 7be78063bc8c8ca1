"""Regression trees and gradient boosting on many small data sets at once, one per prompt prefix.

The greedy least-squares tree of CART (Breiman et al. 1984) and boosting on it (Friedman 2001), as
scikit-learn's `DecisionTreeRegressor` and `GradientBoostingRegressor` fit them: the same split is
chosen wherever the best one is unique. (Where several split the labels equally well, usual in nodes
of a few points, the choice is arbitrary, here as there.)

A tree grows level by level in all data sets together. Every level sorts, in each feature, the
points by (node, value): then the nodes are blocks, a running sum of centred labels gives the gain
of every split at once, and sums restart by themselves because each block adds up to zero.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

__all__ = ["TreeSettings", "predict_prefixes"]


@dataclass(frozen=True)
class TreeSettings:
    """One tree, or a sum of `n_trees` trees fitted to residuals and shrunk by `learning_rate`."""

    max_depth: int = 4
    min_leaf: int = 1  # points that either side of a split keeps
    n_trees: int = 1
    learning_rate: float = 1.0

    def __post_init__(self) -> None:
        for name, high in (("max_depth", 12), ("min_leaf", 10_000), ("n_trees", 10_000)):
            value = getattr(self, name)
            if not isinstance(value, int) or not 1 <= value <= high:
                raise ValueError(
                    f"{name}: expected a whole number from 1 to {high}, got {value!r}."
                )
        if not 0 < self.learning_rate <= 1:
            raise ValueError(
                f"learning_rate: expected a number above 0 and at most 1, got {self.learning_rate}."
            )


def predict_prefixes(
    xs: Float[np.ndarray, "B P D"],
    ys: Float[np.ndarray, "B P"],
    queries: Float[np.ndarray, "B P D"],
    lengths: Int[np.ndarray, " L"],
    settings: TreeSettings,
    *,
    chunk: int = 100_000,
) -> Float[np.ndarray, "B L"]:
    """`[:, j]` predicts at `queries[:, lengths[j]]` from the first `lengths[j]` pairs; 0 from none.

    `chunk` numbers (points x features) are worked on at once, few enough to stay in cache.
    """
    n_prompts, _, n_dims = xs.shape
    ranked = _Ranked.of(xs)
    preds = np.zeros((n_prompts, len(lengths)))
    prompt, which = np.divmod(np.arange(n_prompts * len(lengths)), max(1, len(lengths)))
    by_length = np.argsort(lengths[which], kind="stable")  # data sets of a chunk are of like length
    by_length = by_length[lengths[which[by_length]] > 0]
    start = 0
    while start < len(by_length):
        # as many as fit, given that lengths only grow
        longest = lengths[which[by_length[start:]]]
        sizes = longest * n_dims * np.arange(1, len(longest) + 1)
        n_sets = max(1, int(np.searchsorted(sizes, chunk, side="right")))
        sets = by_length[start : start + n_sets]
        b, j = prompt[sets], which[sets]
        seen, n = lengths[j], int(lengths[j[-1]])
        features = ranked.first(b, n)
        preds[b, j] = _boost(features, ys[b, :n], queries[b, seen], seen, settings)
        start += n_sets
    return preds


def _boost(
    features: "_Ranked",
    y: Float[np.ndarray, "N M"],
    query: Float[np.ndarray, "N D"],
    n_points: Int[np.ndarray, " N"],
    settings: TreeSettings,
) -> Float[np.ndarray, " N"]:
    """Fits the first `n_points` points of each of N data sets and predicts at one query each."""
    present = np.arange(y.shape[1]) < n_points[:, None]
    # Sums run in the order of the points, here and below: where ties are settled by the last digit,
    # the outcome does not hang on what else is worked on at the same time.
    prediction = np.where(present, y, 0.0).cumsum(1)[:, -1] / n_points
    residual = np.where(present, y - prediction[:, None], 0.0)
    for _ in range(settings.n_trees):
        fitted, at_query = _tree(features, residual, query, present, settings)
        residual = np.where(present, residual - settings.learning_rate * fitted, 0.0)
        prediction = prediction + settings.learning_rate * at_query
    return prediction


@dataclass(frozen=True)
class _Ranked:
    """Inputs with, for every feature, one number a point that sorts by value and names the point.

    `code[n, d, j] = rank of x[n, j, d] << shift | j`; adding `node << 2 shift` sorts by node first.
    """

    x: np.ndarray  # (N, M, D)
    code: np.ndarray  # (N, D, M)
    shift: int
    ties: bool  # some feature has equal values

    @staticmethod
    def of(x: Float[np.ndarray, "N M D"]) -> "_Ranked":
        n_points = x.shape[1]
        shift = max(1, (n_points - 1).bit_length())
        by_value = np.ascontiguousarray(x.swapaxes(1, 2))
        order = by_value.argsort(2, kind="stable")
        rank = np.empty_like(order)
        np.put_along_axis(rank, order, np.arange(n_points), 2)
        ordered = np.take_along_axis(by_value, order, 2)
        ties = bool((ordered[:, :, 1:] == ordered[:, :, :-1]).any())
        # nodes of the deepest level, and one for absent points, must fit above rank and point
        dtype = np.int32 if 2 * shift + 13 < 31 else np.int64
        return _Ranked(x, (rank << shift | np.arange(n_points)).astype(dtype), shift, ties)

    def first(self, sets: Int[np.ndarray, " K"], n_points: int) -> "_Ranked":
        """The chosen data sets, cut to their first points: a prefix keeps the order of its own."""
        return _Ranked(
            self.x[sets, :n_points], self.code[sets, :, :n_points], self.shift, self.ties
        )


def _tree(
    features: _Ranked,
    y: Float[np.ndarray, "N M"],
    query: Float[np.ndarray, "N D"],
    present: np.ndarray,
    settings: TreeSettings,
) -> tuple[Float[np.ndarray, "N M"], Float[np.ndarray, " N"]]:
    """One tree: its value at every point and at the query."""
    n_sets, n_points, n_dims = features.x.shape
    rows = np.arange(n_sets)[:, None]
    x = features.x.ravel()  # read by flat positions, here and below: many times faster than by rows
    point = rows * n_points + np.arange(n_points)  # (N, M), as a flat position
    offset = (rows * n_points)[:, None].astype(features.code.dtype)
    node = np.where(present, 0, 1)  # of a point; absent points are in one node after all others
    query_node = np.zeros(n_sets, dtype=np.int64)
    for depth in range(settings.max_depth):
        n_nodes = 2**depth
        mean, size, entry = _node_means(y, node, n_nodes + 1)
        centred = y - mean.take(entry)  # absent points: 0, as their labels

        keys = features.code + (node << 2 * features.shift).astype(features.code.dtype)[:, None]
        keys.sort(2)
        keys &= (1 << features.shift) - 1
        keys += offset  # (N, D, M): flat positions of points, by node, then by value
        order = torch.from_numpy(keys)
        gain = torch.from_numpy(centred.ravel()).index_select(0, order.view(-1)).view_as(order)
        gain.cumsum_(2)  # six times faster than numpy's

        # pairs of block sizes left and right of a split after each place, the same in all features
        entries = np.arange(n_sets * (n_nodes + 1))
        block = np.repeat(entries, size.ravel()).reshape(
            n_sets, n_points
        )  # node and set of a place
        start = np.cumsum(size, 1) - size
        size[:, -1] = 0  # nobody may split the absent
        n_left = np.arange(1, n_points + 1) - start.take(block)
        n_right = size.take(block) - n_left
        allowed = (n_left >= settings.min_leaf) & (n_right >= settings.min_leaf)
        with np.errstate(divide="ignore"):
            scale = np.where(allowed, 1 / n_left + 1 / n_right, 0.0)
        gain.square_().mul_(torch.from_numpy(scale).unsqueeze(1))
        if features.ties:
            value = x.take(keys * np.int64(n_dims) + np.arange(n_dims)[:, None])
            gain.numpy()[:, :, :-1][value[:, :, 1:] == value[:, :, :-1]] = 0.0

        # the best place of each node, then the best feature there
        best = gain.amax(1).numpy()  # (N, M)
        nodes = entries.reshape(n_sets, -1)[:, :-1]  # (N, K)
        in_node = np.where(block[:, None] == nodes[:, :, None], best[:, None], -1.0)
        at = in_node.argmax(2)
        splits = best.take(rows * n_points + at) * (size[:, :-1] > 1) > 0
        start_of = (rows * n_dims)[:, :, None] + np.arange(n_dims)  # rows of gain and keys
        gains = gain.numpy().take(start_of * n_points + at[:, :, None])  # (N, K, D)
        feature = gains.argmax(2)
        place = (rows * n_dims + feature) * n_points
        low = keys.take(place + at)
        high = keys.take(place + np.minimum(at + 1, n_points - 1))
        below = x.take(low * np.int64(n_dims) + feature)
        above = x.take(high * np.int64(n_dims) + feature)
        threshold = (below + above) / 2
        threshold = np.where(threshold < above, threshold, below)  # neighbouring floats
        threshold = np.where(splits, threshold, np.inf)

        known = rows * n_nodes + np.minimum(node, n_nodes - 1)
        tested = x.take(point * n_dims + feature.take(known))
        right = tested > threshold.take(known)
        node = np.where(present, 2 * node + right, 2 * n_nodes)
        asked_at = rows[:, 0] * n_nodes + query_node
        asked = query[rows[:, 0], feature.take(asked_at)]
        query_node = 2 * query_node + (asked > threshold.take(asked_at))
    mean, _, entry = _node_means(y, node, 2**settings.max_depth + 1)
    return mean.take(entry), mean[rows[:, 0], query_node]


def _node_means(
    y: Float[np.ndarray, "N M"], node: Int[np.ndarray, "N M"], n_nodes: int
) -> tuple[Float[np.ndarray, "N K"], Int[np.ndarray, "N K"], Int[np.ndarray, "N M"]]:
    """Mean and size of every node, and where in them (flat) each point's node is."""
    n_sets = len(y)
    entry = node + n_nodes * np.arange(n_sets)[:, None]
    size = np.bincount(entry.ravel(), minlength=n_sets * n_nodes)
    total = np.bincount(entry.ravel(), weights=y.ravel(), minlength=n_sets * n_nodes)
    shape = (n_sets, n_nodes)
    return (total / np.maximum(size, 1)).reshape(shape), size.reshape(shape), entry
