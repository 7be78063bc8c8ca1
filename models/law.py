"""The training law of a checkpoint as a `core.prompts.PromptLaw`, and what lies outside it."""

from __future__ import annotations

from dataclasses import replace

from core.prompts import PromptLaw
from models.config import RegressorConfig, TrainingLaw
from models.folder import Config

# TrainingLaw.task -> a key of core.prompts.TASKS
TASKS = {
    "linear": "linear",
    "sparse": "sparse linear",
    "relu": "relu net",
    "tree": "decision tree",
}


def training_prompt_law(config: Config) -> PromptLaw:
    """The law that training drew from: `models.recipes.draw` is `sample_prompts` of it.

    `mean_spread` shifts both means of a prompt by one draw, as `core.prompts` does.
    """
    law: TrainingLaw = config.law
    return PromptLaw(
        task=TASKS[law.task],
        n_dims=config.n_dims,
        covariates="mixture",
        mean1=law.mean,
        mean2=-law.mean,
        random_share=law.mixed_prompts,
        mean_spread=law.mean_spread * abs(law.mean),
        sparsity=min(3, config.n_dims),
    )


def trained_examples(config: Config) -> int:
    """The most pairs that training ever showed before a query.

    A GPT-2 prompt of n points asks the last after n - 1 pairs; its y token is read by nobody. What
    does not fit its positions it cannot have been shown, whatever the law says.
    """
    shown = config.law.n_examples - isinstance(config, RegressorConfig)
    return min(shown, config.max_examples)


def outside_law(config: Config, law: PromptLaw, n_examples: int) -> list[str]:
    """Reasons, in words, why prompts of `law` with `n_examples` pairs lie outside the training law.

    Empty means inside. Settings without effect are ignored; means within two standard deviations of
    a trained shift are inside. A checkpoint that cannot read the prompts at all (other n_dims, more
    than `config.max_examples`) refuses them in `models.predictor`; here it is one more reason.
    """
    trained, given = training_prompt_law(config), _plain(law)
    reasons = []
    if n_examples > trained_examples(config):
        reasons.append(
            f"{n_examples} examples before the query; in training at most "
            f"{trained_examples(config)} (k = {config.law.n_examples})"
        )
    if given.n_dims != trained.n_dims:
        reasons.append(f"inputs of {given.n_dims} dimensions, trained on {trained.n_dims}")
    reasons += _task_reasons(given, trained)
    reasons += _input_reasons(given, trained)
    if given.similarity is not None:
        reasons.append(
            f"inputs at cosine {given.similarity:g} to the query, in training drawn without regard "
            "to it"
        )
    if given.corruption != "none" and given.accuracy < 1:
        reasons.append(
            f"{_percent(1 - given.accuracy)} of the labels corrupted ({given.corruption}), in "
            "training all were right"
        )
    return reasons


def _plain(law: PromptLaw) -> PromptLaw:
    """The same law in the words of `training_prompt_law`: N(0, I) is a mixture with means 0."""
    if law.covariates != "isotropic":
        return law
    return replace(law, covariates="mixture", w2=0.0, random_share=0.0, mean1=0.0, mean_spread=0.0)


def _task_reasons(given: PromptLaw, trained: PromptLaw) -> list[str]:
    if given.task != trained.task:
        return [f"task {given.task}, trained on {trained.task}"]
    setting = {"sparse linear": "sparsity", "decision tree": "tree_depth", "relu net": "hidden"}
    name = setting.get(given.task, "")
    if name and getattr(given, name) != getattr(trained, name):
        return [
            f"{name.replace('_', ' ')} {getattr(given, name)}, trained on {getattr(trained, name)}"
        ]
    return []


def _input_reasons(given: PromptLaw, trained: PromptLaw) -> list[str]:
    reasons = []
    if given.input_scale != 1:
        reasons.append(f"inputs scaled by {given.input_scale:g}, trained on 1")
    if given.covariates != trained.covariates:
        return [*reasons, f"inputs of a {given.covariates}, trained on {_inputs(trained)}"]
    first = given.w2 < 1 or given.random_share > 0
    second = given.w2 > 0 or given.random_share > 0
    near = 2 * trained.mean_spread + 1e-9
    if first and abs(given.mean1 - trained.mean1) > near:
        reasons.append(f"inputs around {given.mean1:g}, trained around {trained.mean1:g}")
    if second and not trained.random_share and given.mean2 != given.mean1:
        share = given.w2 if not given.random_share else 0.0
        what = f"{_percent(share)} of the inputs" if share else "a random share of the inputs"
        reasons.append(f"{what} around {given.mean2:g}, trained on one mean only")
    elif second and abs(given.mean2 - trained.mean2) > near and trained.random_share:
        reasons.append(f"second mean {given.mean2:g}, trained on {trained.mean2:g}")
    if given.mean_spread > trained.mean_spread + 1e-9:
        reasons.append(f"means spread by {given.mean_spread:g}, trained on {trained.mean_spread:g}")
    return reasons


def _inputs(trained: PromptLaw) -> str:
    return f"N({trained.mean1:g}, I)" if trained.mean1 else "N(0, I)"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
