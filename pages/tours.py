"""The tours: one through the lab, one through each page. A step is a sentence or two, settings, and where to look.

A test holds that every step can be set. What a step says of the picture is looked at by eye, so it keeps to what the
page's scenarios claim, which tests do hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LAB = "lab"
"""Name of the tour through the lab, in `TOURS` and in links: `tour=lab-3`."""


@dataclass(frozen=True)
class Step:
    """One step of a tour.

    Attributes:
        at: the part of the page it speaks of: one of `pages.ui.tour.PARTS`, or a control's key.
        say: a sentence or two; `**bold**` is the only markup.
        values: `{control key: value}`; every other control goes to its default.
        page: where it stands, in the tour of the lab; a page's own tour needs no word for it.
    """

    at: str
    say: str
    values: Mapping[str, Any] = field(default_factory=dict)
    page: str = ""

    def settings(self, page: str) -> dict[str, Any]:
        """All controls of the page as this step sets them."""
        from pages.ui.controls import defaults

        return defaults(page) | dict(self.values)


TOURS: dict[str, tuple[Step, ...]] = {
    LAB: (
        Step(
            "picture",
            "Six memories lie on a circle. Each is the bottom of a well of the energy, and the query (the "
            "ring) rolls into one of them: that is what attention does. So far no example has any effect, and "
            "both sides are alike.",
            {"strength": 0.0},
            page="landscape",
        ),
        Step(
            "strength",
            "Now two examples (yellow squares) count. One linear map, W₁, carries their two memories "
            "onto them and drags the other four along. On the right the wells have moved: the query ends at "
            "memory 0, and **memory 0 lies elsewhere**. The context moved the minimum.",
            page="landscape",
        ),
        Step(
            "sentence",
            "The same in numbers: where the query ends before and after, and how far apart the two ends are. "
            "W₁ follows both examples exactly: two memories in a plane can be sent anywhere.",
            page="landscape",
        ),
        Step(
            "sentence",
            "Twelve examples in two dimensions. **Past rank many examples the linear map cannot follow**: this "
            "sentence ends with how far W₁ misses them. Move t down to 2 to see it fit again.",
            {"examples": 12, "shift": 1.0},
            page="landscape",
        ),
        Step(
            "picture",
            "How far does one update land from the right memory? At each β there are 200 draws. No error lies "
            "above a bound; at small β the bounds are in the grey and say nothing.",
            page="retrieval",
        ),
        Step(
            "picture",
            "Another reading of a prompt: every example narrows the belief about the concept behind it. Press "
            "play and watch the region shrink around the truth.",
            page="hidden_concept",
        ),
        Step(
            "picture",
            "A pretrained transformer on prompts in which 30 % of the inputs are shifted. Least squares does "
            "not notice. The transformer falls behind.",
            {"w2": 0.3},
            page="regression",
        ),
        Step(
            "refuted",
            "Back on the law it was trained on, it stays close to least squares. Every page of a claim ends "
            "with what would refute it: open it and try. All controls are yours now.",
            page="regression",
        ),
    ),
    "landscape": (
        Step(
            "picture",
            "Left the energy before the context, right after it, on one scale. White discs are memories, the "
            "ring is the query, squares are the examples, and arrows show where W₁ takes each memory.",
        ),
        Step(
            "strength",
            "At s = 0.5 the memories have gone half of their way. Move s from 0 to 1 and watch the wells "
            "follow.",
            {"strength": 0.5},
        ),
        Step(
            "beta",
            "A large β gives every memory a well of its own: one step retrieves it.",
            {"beta": 200.0},
        ),
        Step(
            "beta",
            "A small β makes one well for all memories, and the query ends at their average.",
            {"beta": 1.0},
        ),
        Step(
            "examples",
            "Twelve examples in two dimensions are more than the rank: no linear map can follow them all, and "
            "the sentence says by how much the best one misses.",
            {"examples": 12, "shift": 1.0},
        ),
        Step(
            "view",
            "The difference of both energies: blue is where the context lowers the energy.",
            {"view": "difference"},
        ),
        Step(
            "query",
            "The query can stand anywhere: click on the picture to place it, then play its way step by step.",
            {"query": "placed", "x": -0.6, "y": 0.2},
        ),
    ),
    "retrieval": (
        Step(
            "picture",
            "Each column holds 200 draws of memories and a query at one β: how far one update lands from the "
            "right memory. Two lines are bounds that theory promises.",
        ),
        Step(
            "sentence",
            "The last number counts errors above a bound in the whole picture. For a bound that is a theorem "
            "it has to read 0.",
        ),
        Step(
            "axis",
            "Along the noise of the query: at noise 0.8 Theorem 5 says nothing in any draw, and yet every draw "
            "is retrieved.",
            {"axis": "noise", "noise": 0.8, "beta": 20.0, "dimension": 64},
        ),
        Step(
            "view",
            "The phase map: what retrieval ends in over β and noise. Click a cell to go there.",
            {"view": "phase map", "dimension": 3, "memories": 12, "noise": 0.8, "beta": 60.0},
        ),
        Step(
            "picture",
            "The most similar memory becomes the query. Its margin rises in every draw; its Δ falls in about "
            "half of them, drawn as crosses.",
            {"view": "reshaping", "noise": 0.5},
        ),
        Step(
            "refuted",
            "What would refute the claims of this page. Change family, layout and noise, and try to break a "
            "bound.",
        ),
    ),
    "regression": (
        Step(
            "picture",
            "R² against the number of examples, for a frozen transformer and four methods that are not learnt, "
            "on the same prompts.",
        ),
        Step(
            "w2",
            "Now 30 % of the inputs come from N(2, I). Least squares does not notice; the transformer was not "
            "trained on this and falls behind.",
            {"w2": 0.3},
        ),
        Step(
            "accuracy",
            "A fifth of the labels changes places. Least squares falls below zero at as many examples as "
            "dimensions, and all dip there.",
            {"accuracy": 0.8, "n": 20},
        ),
        Step(
            "length",
            "Longer prompts than in training: the amber region. The transformer's R² falls, that of least "
            "squares stays at 1.",
            {"length": 120, "n": 110},
        ),
        Step(
            "view",
            "One prompt in the open: two of its 20 labels have the wrong sign. See which example adds most to "
            "the error.",
            {"view": "one prompt", "accuracy": 0.9, "n": 20, "corruption": "sign flip"},
        ),
        Step(
            "measure",
            "Most of the pooled R² is the mean of the inputs. Within a task that share is taken out: the "
            "honest measure is lower.",
            {"measure": "within-task R²"},
        ),
    ),
    "text": (
        Step(
            "picture",
            "A small language model is asked for capitals. Without examples it goes on with the people or the "
            "continent; after a few it answers with the capital.",
        ),
        Step(
            "right",
            "Now every example is wrong: each country gets the capital of another. The answers are still right "
            "in most cases. The examples teach the kind of answer, not the pairs.",
            {"right": 0.0},
        ),
        Step(
            "task",
            "Sentiment it knew before: without any example it already orders the texts.",
            {"task": "sentiment"},
        ),
        Step(
            "view",
            "One prompt in full, and how the probability of each answer moves as examples come in.",
            {"view": "one prompt", "task": "past tense", "prompt": 3},
        ),
        Step(
            "refuted",
            "What would refute the claim. Your own data and other models can be set under Task and Model.",
        ),
    ),
    "hidden_concept": (
        Step(
            "picture",
            "All values of a prompt follow one concept. Each example is a line of concepts that explain it; "
            "the region holds the concept with 95 %. Press play.",
        ),
        Step(
            "noise",
            "More noise, slower learning: the region after 30 examples is wider.",
            {"noise": 1.5},
        ),
        Step(
            "contradicting",
            "Three examples in ten follow the opposite concept. The belief is as sure as ever, and wrong.",
            {"contradicting": 0.3, "examples": 60},
        ),
        Step(
            "view",
            "Does softmax attention average over concepts? Times a constant C it comes closer as examples "
            "arrive, slowly; raw softmax does not.",
            {
                "view": "predictors",
                "dimension": 5,
                "examples": 100,
                "noise": 0.1,
                "prompts": 192,
                "gpt2": False,
            },
        ),
        Step(
            "view",
            "Leave out one example at a time: what each does to the concept, the answer and the error.",
            {
                "view": "influence",
                "dimension": 4,
                "examples": 24,
                "n": 24,
                "contradicting": 0.2,
                "noise": 0.1,
            },
        ),
        Step(
            "view",
            "Memories reshaped onto the prompt: exact up to as many examples as dimensions, and not one "
            "further.",
            {"view": "reshaped memories", "dimension": 8, "examples": 40, "noise": 0.2},
        ),
    ),
    "ghosts": (
        Step(
            "picture",
            "A search for ghosts: examples that a frozen model cannot tell from no prompt at all. Each line is "
            "one search.",
        ),
        Step(
            "sentence",
            "Setting all labels to 0, without a search, does about as well: a ghost is an example without "
            "information.",
        ),
        Step(
            "view",
            "Linear maps now send the ghosts to a true prompt. With 20 ghosts in 20 dimensions attention "
            "cannot tell the two apart.",
            {"view": "reshaped", "examples": 20},
        ),
        Step(
            "examples",
            "One more ghost than dimensions: no linear map can follow them, and the answers are off.",
            {"view": "reshaped", "examples": 21},
        ),
        Step(
            "refuted",
            "What would refute it. The picture “against t” shows where exactness ends, for every length at "
            "once.",
            {"view": "reshaped", "examples": 21},
        ),
    ),
    "generalization": (
        Step(
            "picture",
            "The bound on the generalisation gap beside the gap itself and the largest swap that was drawn. In "
            "the grey band the bound says nothing.",
        ),
        Step(
            "source",
            "Raw inputs in 20 dimensions have large scores Γ, and the bound grows with e^(2Γ): it is far up in "
            "the grey.",
            {"source": "raw keys", "dimension": 20, "longest": 256},
        ),
        Step(
            "source",
            "A trained head: its keys are normalised, but training has sharpened it to Γ = 7.87. The bound "
            "needs 10⁸ examples.",
            {"source": "attention-1"},
        ),
        Step(
            "view",
            "Scale the inputs: normalised keys do not notice, raw ones make Γ grow with the square of the "
            "scale.",
            {"view": "input scale", "source": "attention-1"},
        ),
        Step(
            "refuted",
            "What would refute the bound: one swap above it, where its hypotheses hold.",
        ),
    ),
    "layers": (
        Step(
            "picture",
            "Every head of a deep transformer read as one step of a Hopfield network: how many memories share "
            "its attention, as examples arrive.",
        ),
        Step(
            "reading",
            "The energy a head's query would lose in one update. It never rises: that much holds of every head.",
            {"reading": "fall in one update"},
        ),
        Step(
            "reading",
            "What the layer really writes lowers that energy in fewer than half of the heads: here the reading "
            "is an analogy.",
            {"reading": "fall by its own write"},
        ),
        Step(
            "view",
            "The heads ranked by their weight on the best key. One of them singles out a memory far more than "
            "the others.",
            {"view": "heads ranked"},
        ),
        Step(
            "refuted",
            "What would refute this reading, which the paper leaves to future work.",
        ),
    ),
    "induction": (
        Step(
            "picture",
            "u came once after q. Layer 1 looks one letter back; layer 2 finds what stood after the last q.",
        ),
        Step(
            "view",
            "What speaks for each letter: the context for u, the bigram law for r. The context wins.",
            {"view": "logits"},
        ),
        Step(
            "bigram",
            "With more weight on the bigram law, r wins: what is known beats what was just seen.",
            {"view": "logits", "bigram": 4.0},
        ),
        Step(
            "ablated",
            "Empty the memory of the previous position and the head no longer finds u.",
            {"view": "logits", "ablated": "previous position"},
        ),
        Step(
            "view",
            "One pair in a long prompt is drowned: from 111 letters on the favourite of the bigram law wins.",
            {"view": "length"},
        ),
        Step(
            "view",
            "A head being born: accuracy jumps when layer 1 has learnt to look back.",
            {"view": "training", "prompt": "the quick brown fox q"},
        ),
    ),
    "checkpoints": (
        Step(
            "numbers",
            "R² of the checkpoint, measured now, beside what its card says and beside least squares. Below "
            "stands the file: what it was trained on, its size and how long it took.",
        ),
        Step(
            "picture",
            "Asked here and now on fresh prompts of that law, beside least squares on the same prompts.",
        ),
        Step(
            "name",
            "One layer of attention cannot do least squares, however long it is trained. Choose others here, "
            "or upload your own below.",
            {"name": "attention-1"},
        ),
    ),
}


def of(name: str) -> tuple[Step, ...]:
    """The steps of this tour; none if there is no such tour."""
    return TOURS.get(name, ())
