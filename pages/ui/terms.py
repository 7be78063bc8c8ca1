"""The words of the lab, each said once: the glossary shows them all, and texts elsewhere link to them.

`linked(text)` turns the first mention of each term in a Markdown text into a link to the glossary, so that no
page has to write links into its words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from urllib.parse import quote

RAMSAUER = "Ramsauer et al. 2020, Hopfield Networks is All You Need"
CAMR = "Wu et al. 2025, In-Context Learning as Conditioned Associative Memory Retrieval"
VASWANI = "Vaswani et al. 2017, Attention Is All You Need"
GARG = "Garg et al. 2022, What Can Transformers Learn In-Context?"
ZHANG = "Zhang et al. 2023, What and How does In-Context Learning Learn?"
LESTER = "Lester et al. 2021, The Power of Scale for Parameter-Efficient Prompt Tuning"
BIETTI = "Bietti et al. 2023, Birth of a Transformer"
OLSSON = "Olsson et al. 2022, In-context Learning and Induction Heads"
HASTIE = "Hastie, Tibshirani and Friedman 2009, The Elements of Statistical Learning"
GOLUB = "Golub and Van Loan 2013, Matrix Computations"
EFRON = "Efron and Tibshirani 1993, An Introduction to the Bootstrap"
BISHOP = "Bishop 2006, Pattern Recognition and Machine Learning"
HOPFIELD = "Hopfield 1982, Neural networks and physical systems with emergent collective abilities"
BROWN = "Brown et al. 2020, Language Models are Few-Shot Learners"
OURS = "this lab"


@dataclass(frozen=True, kw_only=True)
class Term:
    """A word of the lab.

    Attributes:
        key: what a link says, `glossary?term=key`.
        name: heading of its entry.
        says: one or two plain sentences, Markdown.
        see: links into the lab, `page` or `page?query`, where to see it; the first is the best.
        source: who defined it so.
        symbol: LaTeX, "" if it has none.
        forms: how texts spell it, besides the name; these become links.
    """

    key: str
    name: str
    says: str
    see: tuple[str, ...]
    source: str
    symbol: str = ""
    forms: tuple[str, ...] = ()


TERMS: tuple[Term, ...] = (
    Term(
        key="associative-memory", name="associative memory",
        says="A store that is asked with a damaged or partial copy of something and answers with the "
        "whole. It finds by likeness, not by address.",
        see=("landscape", "induction"), source=HOPFIELD, forms=("associative memories",),
    ),
    Term(
        key="memory", name="memory, stored pattern", symbol=r"\xi_\mu",
        says="One of the M vectors an associative memory holds. In attention these are the keys.",
        see=("landscape", "retrieval"), source=RAMSAUER,
        forms=("stored memories", "stored memory", "stored pattern", "pretrained memories"),
    ),
    Term(
        key="hopfield", name="modern Hopfield network",
        says="An associative memory with continuous states whose energy is so steep around each memory "
        "that many fit in. One of its updates is one softmax attention.",
        see=("landscape", "layers"), source=RAMSAUER,
        forms=("Hopfield network", "modern Hopfield energy", "Hopfield update"),
    ),
    Term(
        key="energy", name="energy", symbol="E",
        says="A number for every state. Retrieval goes downhill on it, so its low points are what can be "
        "retrieved.",
        see=("landscape", "layers"), source=RAMSAUER, forms=("energies",),
    ),
    Term(
        key="beta", name="inverse temperature", symbol=r"\beta",
        says="How sharply attention picks: at large β nearly all weight goes to the best match, at small "
        "β all matches share it.",
        see=("landscape?preset=sharp", "retrieval?preset=phases"), source=RAMSAUER,
    ),
    Term(
        key="attention", name="attention", symbol=r"\mathrm{softmax}(\beta K q)",
        says="A weighted mean of values. The weights are positive, sum to 1, and are larger for keys with "
        "a larger product with the query.",
        see=("landscape", "hidden_concept?preset=closes"), source=VASWANI,
        forms=("softmax attention", "attend", "attends"),
    ),
    Term(
        key="query", name="query", symbol="q",
        says="The vector that asks: attention compares it with every key. On the pages about memory it is "
        "the state x that rolls into a well; on the pages about prompts it is the input that is asked.",
        see=("landscape",), source=VASWANI, forms=("queries",),
    ),
    Term(
        key="key", name="key", symbol="k_i",
        says="The vector an example is found by. Its product with the query decides its weight.",
        see=("hidden_concept", "layers"), source=VASWANI, forms=("keys",),
    ),
    Term(
        key="value", name="value", symbol="v_i",
        says="The vector an example contributes to the answer, once its key has been weighed.",
        see=("hidden_concept",), source=VASWANI, forms=("values",),
    ),
    Term(
        key="head", name="attention head",
        says="One attention with its own maps from tokens to queries, keys and values. A layer has several "
        "side by side.",
        see=("layers", "generalization"), source=VASWANI, forms=("head", "heads"),
    ),
    Term(
        key="in-context", name="in-context learning",
        says="A model with fixed weights answers better because of examples in its prompt. Nothing is "
        "trained meanwhile.",
        see=("regression", "text"), source=BROWN,
    ),
    Term(
        key="example", name="in-context example",
        says="An input with its answer, written into the prompt before the question.",
        see=("regression?preset=hurts", "text?preset=one"), source=BROWN,
        forms=("in-context examples",),
    ),
    Term(
        key="ghost", name="ghost example", symbol=r"\tilde K, \tilde V",
        says="A pair of key and value that a model is taken to hold from pretraining, and which the "
        "examples of a prompt move. Here: the memory an example is paired with, or a pair found by search.",
        see=("ghosts", "landscape"), source=CAMR, forms=("ghost examples", "ghosts"),
    ),
    Term(
        key="reshaping", name="reshaping", symbol=r"\xi_\mu \mapsto W_1 \xi_\mu",
        says="The one linear map that best sends ghosts to the examples of the prompt, applied to all "
        "memories. The landscape of the energy moves with them.",
        see=("landscape?preset=context", "retrieval?preset=lemma"), source=CAMR,
        forms=("reshape", "reshapes", "reshaped"),
    ),
    Term(
        key="w1", name="W₁ and W₂", symbol=r"W_1 = K\tilde K^{+}",
        says="The maps of reshaping, for keys and for values: of all linear maps, those that send ghosts "
        "to examples with the least squared error.",
        see=("landscape", "ghosts?preset=exact"), source=CAMR, forms=("W₁", "W₂", "W1", "W2"),
    ),
    Term(
        key="pseudo-inverse", name="pseudo-inverse", symbol=r"\tilde K^{+}",
        says="What stands in for the inverse of a matrix that has none. It gives the least-squares answer, "
        "and of several the smallest.",
        see=("landscape?preset=overfull", "ghosts?preset=past"), source=GOLUB,
    ),
    Term(
        key="rank", name="rank",
        says="How many directions a set of vectors really spans. A linear map can send that many of them "
        "anywhere; past it some must miss.",
        see=("landscape?preset=overfull", "ghosts?preset=along"), source=GOLUB,
    ),
    Term(
        key="condition", name="condition number",
        says="Largest over smallest singular value of a matrix: how much it can blow up an error. At 10¹² "
        "about twelve of a number's sixteen digits are lost.",
        see=("landscape", "ghosts?preset=exact"), source=GOLUB,
    ),
    Term(
        key="residual", name="residual",
        says="What a fit leaves over, relative to the size of what was to be fitted. 0 is an exact fit.",
        see=("landscape?preset=overfull", "ghosts?preset=past"), source=GOLUB,
    ),
    Term(
        key="ridge", name="ridge", symbol=r"\rho",
        says="Least squares with a price on large coefficients. It keeps a fit steady where data are few "
        "or noisy, at the cost of some bias. The price is ρ.",
        see=("regression", "landscape"), source=HASTIE, forms=("ridge regression",),
    ),
    Term(
        key="separation", name="separation", symbol=r"\Delta_\mu",
        says="How far a memory is from being confused: its product with itself minus its largest product "
        "with another memory.",
        see=("retrieval?preset=crowd", "landscape?preset=falls"), source=RAMSAUER,
    ),
    Term(
        key="margin", name="margin", symbol="S_\\mu(x)",
        says="How clearly a query points at its memory: its product with it minus its largest product with "
        "another.",
        see=("retrieval?preset=lemma", "layers"), source=OURS,
    ),
    Term(
        key="basin", name="basin, well",
        says="All states from which retrieval ends at the same place.",
        see=("landscape?preset=sharp", "retrieval?preset=phases"), source=RAMSAUER,
        forms=("basins", "wells", "one well", "own well"),
    ),
    Term(
        key="fixed-point", name="fixed point", symbol="x^*",
        says="A state that an update leaves where it is. Retrieval ends there.",
        see=("retrieval", "landscape"), source=RAMSAUER,
    ),
    Term(
        key="retrieval", name="retrieval", symbol="x \\mapsto T(x)",
        says="Updating a query until it no longer moves. It may end at the right memory, at a wrong one, or "
        "at a mixture of several.",
        see=("landscape", "retrieval?preset=phases"), source=RAMSAUER, forms=("retrieves",),
    ),
    Term(
        key="bound", name="bound, vacuous bound",
        says="A number that a quantity provably does not exceed. It is vacuous where the quantity could not "
        "be that large anyway: then it says nothing.",
        see=("retrieval?preset=silent", "generalization?preset=raw"), source=OURS,
        forms=("bounds", "bound", "vacuous"),
    ),
    Term(
        key="frozen", name="frozen model",
        says="A trained model whose weights are not changed any more, whatever it is asked.",
        see=("regression", "ghosts"), source=OURS, forms=("frozen transformer", "frozen"),
    ),
    Term(
        key="transformer", name="transformer",
        says="A stack of layers, each of which lets every token attend to those before it and then "
        "transforms each by itself. GPT-2 is one.",
        see=("layers", "induction"), source=VASWANI, forms=("transformers",),
    ),
    Term(
        key="law", name="training law",
        says="The distribution from which a model's training prompts were drawn. Outside it nothing was "
        "promised.",
        see=("checkpoints", "regression?preset=home"), source=GARG, forms=("training laws",),
    ),
    Term(
        key="shift", name="covariate shift", symbol="w_2",
        says="The inputs come from another distribution than in training, while the rule from input to "
        "label stays the same.",
        see=("regression?preset=shift", "layers?preset=shift"), source=GARG,
    ),
    Term(
        key="noise", name="label noise", symbol=r"\alpha",
        says="Some labels in the prompt are wrong. Here α is the share that is right; the others change "
        "places unless you choose another kind.",
        see=("regression?preset=labels", "text?preset=wrong"), source=CAMR, forms=("wrong labels",),
    ),
    Term(
        key="r2", name="R², pooled and within-task", symbol="R^2",
        says="The share of the labels' variance that the answers explain: 1 is perfect, 0 is answering the "
        "mean. Pooled takes the mean over all prompts, within-task over each prompt, which is stricter.",
        see=("regression",), source=GARG, forms=("R²",),
    ),
    Term(
        key="bootstrap", name="bootstrap band",
        says="How far a curve could lie elsewhere with other prompts: it is computed again and again from "
        "prompts drawn with replacement, and 95 % of the results lie in the band.",
        see=("regression", "text"), source=EFRON, forms=("bands",),
    ),
    Term(
        key="least-squares", name="least squares",
        says="The linear rule with the smallest sum of squared errors on the examples; of several, the one "
        "with the smallest coefficients.",
        see=("regression?preset=home",), source=HASTIE,
    ),
    Term(
        key="averaging", name="averaging",
        says="The rule w = mean of x y: one step of gradient descent on the squared error, begun at zero.",
        see=("regression",), source=GARG,
    ),
    Term(
        key="knn", name="nearest neighbours, kNN",
        says="Answers with the mean label of the k examples whose inputs are nearest to the asked one.",
        see=("regression",), source=HASTIE, forms=("nearest neighbours",),
    ),
    Term(
        key="boosting", name="decision tree, boosting",
        says="A tree answers by a few yes-or-no questions about the input. Boosting adds many small trees, "
        "each fitted to what those before it left over.",
        see=("regression?v=1&regression-task=decision+tree&regression-covariates=isotropic",),
        source=HASTIE, forms=("decision tree", "gradient boosting", "boosting"),
    ),
    Term(
        key="concept", name="hidden concept", symbol="z",
        says="What all examples of a prompt have in common and what the model is not told: here the "
        "matrix that sends keys to values.",
        see=("hidden_concept",), source=ZHANG,
    ),
    Term(
        key="posterior", name="posterior",
        says="The belief about an unknown after the data were seen: each possibility, weighed by how "
        "likely it was before and how well it explains them.",
        see=("hidden_concept?preset=narrows",), source=BISHOP, forms=("belief",),
    ),
    Term(
        key="predictive", name="posterior predictive",
        says="The distribution of the next value when the unknown is averaged over the posterior instead "
        "of being fixed at its best guess.",
        see=("hidden_concept?preset=closes",), source=BISHOP,
    ),
    Term(
        key="bma", name="Bayesian model averaging, BMA",
        says="Answering with the mean over all models that explain the data, each weighed by its posterior. "
        "For a linear model with Gaussian noise it is ridge at the true noise.",
        see=("hidden_concept?preset=closes", "regression"), source=ZHANG,
        forms=("Bayesian model averaging", "BMA"),
    ),
    Term(
        key="kernel", name="kernel", symbol="G, g(q)",
        says="A function that says how alike two inputs are. It takes the place of their product, and makes "
        "a linear method curved.",
        see=("hidden_concept?preset=closes",), source=BISHOP,
    ),
    Term(
        key="influence", name="influence",
        says="What one example does to an answer: the answer with it minus the answer without it.",
        see=("hidden_concept?preset=hurts", "regression?preset=hurts"), source=OURS,
    ),
    Term(
        key="gap", name="generalisation gap", symbol=r"R - R_{\mathrm{emp}}",
        says="How much worse a rule does on fresh data than on the data it was made from.",
        see=("generalization",), source=HASTIE,
    ),
    Term(
        key="induction-head", name="induction head",
        says="Two attention heads that together continue a repetition: one notes what came before each "
        "token, the other looks for the present token among those notes.",
        see=("induction?preset=head", "induction?preset=birth"), source=OLSSON,
        forms=("induction heads",),
    ),
    Term(
        key="bigram", name="bigram law", symbol=r"\pi(v|q)",
        says="How likely each letter follows a given one, whatever stood before.",
        see=("induction?preset=takeover",), source=BIETTI,
    ),
    Term(
        key="trigger", name="trigger", symbol="Q",
        says="A letter after which the model looks into its context instead of trusting the bigram law.",
        see=("induction",), source=BIETTI, forms=("triggers",),
    ),
    Term(
        key="logit", name="logit", symbol=r"\xi_v",
        says="The score of a possible next token before softmax turns scores into probabilities. Adding "
        "the same number to all changes nothing.",
        see=("induction?preset=tie",), source=BIETTI, forms=("logits",),
    ),
    Term(
        key="embedding", name="embedding",
        says="The vector that stands for a token inside a model.",
        see=("induction?preset=crosstalk",), source=BIETTI, forms=("embeddings",),
    ),
    Term(
        key="cross-talk", name="cross-talk",
        says="What a memory answers to a question that was not meant for it, because its vectors are not "
        "quite perpendicular.",
        see=("induction?preset=crosstalk",), source=BIETTI,
    ),
    Term(
        key="token", name="token",
        says="The unit a transformer reads: a letter, a piece of a word, or one vector of numbers.",
        see=("text?preset=one", "induction"), source=VASWANI, forms=("tokens",),
    ),
    Term(
        key="residual-stream", name="residual stream",
        says="The vector of a token as it passes through the layers. Each layer adds to it and takes "
        "nothing away.",
        see=("layers?preset=one",), source=OLSSON,
    ),
    Term(
        key="effective", name="effective number of memories",
        says="How many keys share the weight of attention: the exponential of its entropy. 1 is a single "
        "key; n equal weights give n.",
        see=("layers?preset=arrive", "retrieval?preset=phases"), source=RAMSAUER,
        forms=("effective memories",),
    ),
    Term(
        key="auc", name="AUC",
        says="The chance that a positive case gets a higher score than a negative one. 0.5 is guessing, "
        "wherever one would draw the line between yes and no.",
        see=("text?preset=sentiment", "text?preset=made-up"), source=HASTIE,
    ),
    Term(
        key="f1", name="macro-F1",
        says="F1 is high only where both what was found is right and what is right was found. Macro: the "
        "mean over all labels, so that a rare one counts as much as a frequent one.",
        see=("text?preset=sentiment",), source=HASTIE,
    ),
    Term(
        key="language-model", name="causal language model",
        says="A model that gives a probability to every next token of a text, seeing only what stands "
        "before it.",
        see=("text",), source=BROWN, forms=("language model",),
    ),
    Term(
        key="prompt", name="prompt",
        says="All that a model is given to read before it answers: the examples and the question.",
        see=("text?preset=one", "regression?preset=hurts"), source=BROWN, forms=("prompts",),
    ),
    Term(
        key="prompt-tuning", name="prompt tuning",
        says="Searching for a prompt by gradient descent: its vectors are free to be any numbers, the "
        "model's weights stay as they are.",
        see=("ghosts?preset=gpt",), source=LESTER,
    ),
    Term(
        key="checkpoint", name="checkpoint",
        says="The weights of a model as they stood at the end of its training, in a file.",
        see=("checkpoints",), source=OURS, forms=("checkpoints",),
    ),
    Term(
        key="safetensors", name="safetensors",
        says="A file format for weights that holds numbers only. Opening it cannot run anybody's code, "
        "unlike a pickled file.",
        see=("checkpoints",), source="Hugging Face, safetensors",
    ),
    Term(
        key="seed", name="seed",
        says="The number a random generator starts from. The same seed draws the same numbers, so that "
        "others can see what you saw.",
        see=("landscape",), source=OURS,
    ),
)  # fmt: skip


NOT_MEANT = ("well", "rank correlation")
"""What is spelt like a term and means something else."""


def term(key: str) -> Term | None:
    """The term of this key, None if there is none."""
    return next((t for t in TERMS if t.key == key), None)


def found(asked: str) -> tuple[Term, ...]:
    """The terms that hold all the words asked for, in name, symbol or text; those named so come first."""
    words = asked.casefold().split()

    def rest(t: Term) -> str:
        return " ".join((t.key, t.name, t.symbol, *t.forms, t.says, t.source)).casefold()

    hits = [t for t in TERMS if all(w in rest(t) for w in words)]
    return tuple(sorted(hits, key=lambda t: not all(w in t.name.casefold() for w in words)))


def address(key: str) -> str:
    """Link to a term, from any page of the lab."""
    return f"glossary?term={quote(key)}"


@cache
def _spelt() -> tuple[re.Pattern[str], dict[str, Term]]:
    """What matches any spelling of a term, the longest first, and whose spelling each is."""
    known = {form: t for t in TERMS for form in (*_names(t), *t.forms) if form not in NOT_MEANT}
    every = "|".join(re.escape(form) for form in sorted(known, key=len, reverse=True))
    # Formulas, code and links, in brackets or as tags, stay as they are.
    skip = rf"(?<![\w-])(?:{'|'.join(NOT_MEANT)})(?![\w-])" + (
        r"|\$\$.*?\$\$|\$[^$]*\$|`[^`]*`|!?\[[^\]]*\]\([^)]*\)|<[^>]*>"
    )
    return (
        re.compile(rf"{skip}|(?<![\w-])({every})(?![\w-])", re.IGNORECASE | re.DOTALL),
        {form.casefold(): t for form, t in known.items()},
    )


def _names(t: Term) -> list[str]:
    return [part.strip() for part in t.name.split(",")]


def linked(text: str, *, less: frozenset[str] = frozenset()) -> str:
    """The Markdown text with the first mention of each term as a link that says on hover what it is.

    Args:
        less: keys of terms that are not to be linked.
    """
    pattern, known = _spelt()
    seen = set(less)

    def mark(match: re.Match[str]) -> str:
        spelt = match[1]
        if spelt is None or (t := known[spelt.casefold()]).key in seen:
            return match[0]
        seen.add(t.key)
        said = plain(t.says).replace('"', "'")
        return f'[{spelt}]({address(t.key)} "{said}")'

    return pattern.sub(mark, text)


def plain(says: str) -> str:
    """Without Markdown's emphasis."""
    return says.replace("*", "").replace("`", "")
