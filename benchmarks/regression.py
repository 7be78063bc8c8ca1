"""Seconds for 64 prompts x 75 examples, every predictor: `python -m benchmarks.regression`.

Beside each baseline of `core.predictors`, which answers all lengths in one pass, the same baseline
computed position by position, written as the evaluation of Garg et al. 2022 does it: least squares
and averaging loop over positions with all prompts in a batch, nearest neighbours and trees loop
over prompts too. Ridge is not in their evaluation; it has two peers, one batched solve of the
normal equations a position, and scikit-learn's Ridge fitted prompt by prompt, as they fit their
lasso. Their boosting is XGBoost, here scikit-learn's, so that both sides fit the same model. Both
sides give the same predictions, which is checked first; of trees the tests check it, where splits
are unique. The last line adds up all baselines, ridge against its batched peer.

Both sides take turns, medians over the repetitions. The tree loops run on a few prompts and are
scaled up, for they take minutes. On a busy machine the CPU time is to be believed.

The browser half moves sliders of the regression page in Chromium, at its defaults and with a fifth
of the labels wrong (where ridge and least squares part), above the floor of a page that only prints
its slider's value; see `benchmarks/paint.py`. Every move is a new law: prompts, the checkpoint's
answers, four baselines and all bands are made anew.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.browser import ROOT, serve
from benchmarks.paint import measure
from core.predictors import (
    Averaging,
    DecisionTree,
    GradientBoosting,
    LeastSquares,
    NearestNeighbours,
    Predictor,
    Ridge,
)
from core.prompts import PromptLaw, Prompts, sample_prompts

LINEAR = PromptLaw(corruption="permuted", accuracy=0.8)
TREE = PromptLaw(task="decision tree", n_dims=20, covariates="isotropic")
BOOSTED = GradientBoosting()
TARGET = 20.0
PAINT_TARGET_MS = 600.0
SLIDERS = ("w₂ share of N(μ₂, I)", "μ₁ main mean")
PAGES = ("regression", "regression?v=1&regression-accuracy=0.8")


# --- The same baselines, position by position ----------------------------------------------------


def _at_each_position(
    prompts: Prompts, answer: Callable[[Tensor, Tensor, Tensor], Tensor]
) -> Tensor:
    """`answer(earlier inputs, their labels, query)` for all prompts, one position after another."""
    xs, ys, queries = prompts.xs, prompts.ys, prompts.queries
    preds = [torch.zeros_like(ys[:, 0])]
    for i in range(1, prompts.n_points):
        preds.append(answer(xs[:, :i], ys[:, :i], queries[:, i]))
    return torch.stack(preds, 1)


def least_squares(prompts: Prompts) -> Tensor:
    def answer(xs: Tensor, ys: Tensor, query: Tensor) -> Tensor:
        weights = torch.linalg.lstsq(xs, ys.unsqueeze(2)).solution
        return (query.unsqueeze(1) @ weights).flatten()

    return _at_each_position(prompts, answer)


def ridge(prompts: Prompts, penalty: float) -> Tensor:
    noise = penalty * torch.eye(prompts.n_dims, dtype=prompts.xs.dtype)

    def answer(xs: Tensor, ys: Tensor, query: Tensor) -> Tensor:
        weights = torch.linalg.solve(xs.mT @ xs + noise, xs.mT @ ys.unsqueeze(2))
        return (query.unsqueeze(1) @ weights).flatten()

    return _at_each_position(prompts, answer)


def averaging(prompts: Prompts) -> Tensor:
    def answer(xs: Tensor, ys: Tensor, query: Tensor) -> Tensor:
        weights = (xs * ys.unsqueeze(2)).mean(1).unsqueeze(2)
        return (query.unsqueeze(1) @ weights).flatten()

    return _at_each_position(prompts, answer)


def nearest_neighbours(prompts: Prompts, k: int = 3) -> Tensor:
    def answer(xs: Tensor, ys: Tensor, query: Tensor) -> Tensor:
        distances = (xs - query.unsqueeze(1)).square().sum(2).sqrt()
        nearest = distances.argsort(1)[:, : min(k, xs.shape[1])]
        return torch.stack([labels[near].mean() for labels, near in zip(ys, nearest, strict=True)])

    return _at_each_position(prompts, answer)


def sklearn_ridge(prompts: Prompts, penalty: float) -> Tensor:
    from sklearn.linear_model import Ridge as SklearnRidge

    return _fitted(prompts, lambda: SklearnRidge(alpha=penalty, fit_intercept=False))


def _fitted(prompts: Prompts, make: Callable) -> Tensor:
    def answer(xs: Tensor, ys: Tensor, query: Tensor) -> Tensor:
        preds = []
        for b in range(len(xs)):
            model = make().fit(xs[b].numpy(), ys[b].numpy())
            preds.append(model.predict(query[b : b + 1].numpy())[0])
        return torch.tensor(preds, dtype=torch.float64)

    return _at_each_position(prompts, answer)


def decision_tree(prompts: Prompts) -> Tensor:
    from sklearn.tree import DecisionTreeRegressor

    return _fitted(prompts, lambda: DecisionTreeRegressor(max_depth=4))


def gradient_boosting(prompts: Prompts) -> Tensor:
    from sklearn.ensemble import GradientBoostingRegressor

    return _fitted(
        prompts,
        lambda: GradientBoostingRegressor(
            n_estimators=BOOSTED.n_trees,
            max_depth=BOOSTED.max_depth,
            learning_rate=BOOSTED.learning_rate,
        ),
    )


# --- Timing --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seconds:
    """Medians over repetitions."""

    wall: float
    cpu: float


def timed(call: Callable[[], object], repetitions: int) -> list[tuple[float, float]]:
    """(wall, CPU) seconds of each call."""
    measured = []
    for _ in range(repetitions):
        wall, cpu = time.perf_counter(), time.process_time()
        call()
        measured.append((time.perf_counter() - wall, time.process_time() - cpu))
    return measured


def medians(measured: list[tuple[float, float]], scale: float = 1.0) -> Seconds:
    wall, cpu = (scale * statistics.median(column) for column in zip(*measured, strict=True))
    return Seconds(wall, cpu)


def compare(
    predictor: Predictor,
    peer: Callable[[Prompts], Tensor],
    prompts: Prompts,
    *,
    repetitions: int,
    peer_prompts: int | None = None,
) -> tuple[Seconds, Seconds]:
    """(one pass, position by position), taking turns; the peer on its first prompts, scaled up."""
    few = prompts if peer_prompts is None else prompts.take(slice(0, peer_prompts))
    answers = predictor(prompts)  # warms up
    if peer_prompts is None:
        torch.testing.assert_close(answers, peer(prompts), rtol=1e-7, atol=1e-7)
    else:
        peer(few.first(3))
    one_pass, by_position = [], []
    for _ in range(repetitions):
        by_position += timed(lambda: peer(few), 1)
        one_pass += timed(lambda: predictor(prompts), 1 if peer_prompts else 5)
    return medians(one_pass), medians(by_position, prompts.n_prompts / few.n_prompts)


def report_paint(moves: int) -> None:
    """A line for each page and slider: release to picture, above the floor."""
    print(f"slider to paint, target {PAINT_TARGET_MS:.0f} ms above the floor, {moves} moves")
    print(f"{'page and slider':<62}{'page':>7}{'floor':>7}{'above':>7}{'95 %':>7}  ms, medians")
    with serve(ROOT / "app.py") as lab, serve(ROOT / "benchmarks/floor.py") as floor:
        for page in PAGES:
            for slider in SLIDERS:
                r = measure(lab, page, slider, floor, moves)
                cells = (r["page"], r["floor"], r["above"], r["p95"])
                numbers = "".join(f"{value:>7.0f}" for value in cells)
                print(f"{page + ', ' + slider:<62}{numbers}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--examples", type=int, default=75)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--threads", type=int, help="torch threads; default: torch's own")
    parser.add_argument("--tree-prompts", type=int, default=8, help="for the loop of tree fits")
    parser.add_argument("--checkpoints", nargs="*", help="names; default: all that fit")
    parser.add_argument("--moves", type=int, default=20, help="slider moves in the browser half")
    parser.add_argument("--half", choices=("engine", "browser"), help="run one half only")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    if arguments.half != "browser":
        report_engine(arguments)
    if arguments.half != "engine":
        report_paint(arguments.moves)


def row(name: str, seconds: Sequence[float]) -> str:
    """One pass and position by position, wall and CPU, then how many times faster."""
    ratios = (seconds[2] / seconds[0], seconds[3] / seconds[1])
    cells = [f"{n:>12.4f}" for n in seconds] + [f"{r:>12.1f}" for r in ratios]
    return f"{name:<22}" + "".join(cells)


def report_engine(arguments: argparse.Namespace) -> None:
    """A line for each baseline and each checkpoint."""

    def prompts_of(law: PromptLaw) -> Prompts:
        generator = torch.Generator().manual_seed(0)
        return sample_prompts(law, arguments.prompts, arguments.examples + 1, generator)

    linear, tree = prompts_of(LINEAR), prompts_of(TREE)
    penalty = Ridge.for_law(LINEAR).penalty
    several, once = arguments.repetitions, 1
    few, fewer = arguments.tree_prompts, max(1, arguments.tree_prompts // 4)
    rows = [
        (LeastSquares(), least_squares, linear, several, None),
        (Ridge(penalty), lambda prompts: ridge(prompts, penalty), linear, several, None),
        (
            Ridge(penalty, "ridge, scikit-learn"),
            lambda prompts: sklearn_ridge(prompts, penalty),
            linear,
            once,
            few,
        ),
        (Averaging(), averaging, linear, several, None),
        (NearestNeighbours(), nearest_neighbours, linear, several, None),
        (DecisionTree(), decision_tree, tree, once, few),
        (BOOSTED, gradient_boosting, tree, once, fewer),
    ]
    print(
        f"{arguments.prompts} prompts x {arguments.examples} examples, d = {LINEAR.n_dims}, "
        f"float64, {torch.get_num_threads()} thread(s); seconds, target ratio {TARGET:.0f}"
    )
    head = ("one pass", "cpu", "by position", "cpu", "ratio", "cpu ratio")
    print(f"{'baseline':<22}" + "".join(f"{name:>12}" for name in head))
    total = [0.0] * 4
    for predictor, peer, prompts, repetitions, peer_prompts in rows:
        ours, theirs = compare(
            predictor, peer, prompts, repetitions=repetitions, peer_prompts=peer_prompts
        )
        numbers = (ours.wall, ours.cpu, theirs.wall, theirs.cpu)
        if "scikit" not in predictor.name:
            total = [t + n for t, n in zip(total, numbers, strict=True)]
        print(row(predictor.name, numbers), flush=True)
    print(row("all six", total))

    from models import zoo

    for name in zoo.names() if arguments.checkpoints is None else arguments.checkpoints:
        predictor = zoo.predictor(name)
        config = zoo.config(name)
        if arguments.checkpoints is None and (
            config.n_dims != linear.n_dims or config.max_examples < arguments.examples
        ):
            continue
        predictor(linear)  # warms up
        seconds = medians(timed(lambda predictor=predictor: predictor(linear), several))
        print(f"{name:<22}{seconds.wall:>12.4f}{seconds.cpu:>12.4f}")


if __name__ == "__main__":
    main()
