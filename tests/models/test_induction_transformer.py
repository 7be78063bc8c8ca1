"""The trained induction head: forward pass by loops, probes by construction, training resumed."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from core.bigrams import TriggerLaw, V, encode
from models import folder, zoo
from models.config import InductionConfig
from models.folder import CheckpointError, read_folder, write_folder
from models.induction_transformer import (
    FROZEN,
    LEARNT,
    InductionTransformer,
    Training,
    probes,
    read_prompt,
)
from models.pretrain_induction import InductionRecipe, log_steps, measure, train

TINY = InductionConfig(n_embd=12, n_positions=9, steps=(0, 2, 4), law=TriggerLaw("qx", 5.0))
RECIPE = InductionRecipe(TINY, batch=4)


def random_model(seed=0):
    generator = torch.Generator().manual_seed(seed)
    model = InductionTransformer(12, 9, generator).double()
    for name in LEARNT:
        getattr(model, name).data = torch.randn(12, 12, generator=generator, dtype=torch.float64)
    return model


def by_loops(model, tokens):
    """The formulas of the module's docstring, one position after another."""
    m = {name: getattr(model, name).detach().numpy() for name in (*FROZEN, *LEARNT)}
    x0 = [m["embed"][z] + m["position"][t] for t, z in enumerate(tokens)]

    def attend(x, key):
        A = np.zeros((len(x), len(x)))
        for t in range(len(x)):
            score = np.array([x[s] @ key @ x[t] for s in range(t + 1)])
            A[t, : t + 1] = np.exp(score - score.max()) / np.exp(score - score.max()).sum()
        return A

    A1 = attend(x0, m["key1"])
    x1 = [
        x + m["value1"] @ sum(a * y for a, y in zip(A1[t], x0, strict=True))
        for t, x in enumerate(x0)
    ]
    A2 = attend(x1, m["key2"])
    logits = [
        m["unembed"]
        @ (
            m["bigram"] @ x
            + m["output2"] @ sum(a * (m["value2"] @ y) for a, y in zip(A2[t], x1, strict=True))
        )
        for t, x in enumerate(x0)
    ]
    return np.array(logits), A1, A2


def test_the_forward_pass_is_its_docstring():
    tokens = encode("qaxbqcz")
    found = random_model()(torch.from_numpy(tokens)[None])
    for ours, oracle in zip(found, by_loops(random_model(), tokens), strict=True):
        np.testing.assert_allclose(ours[0].detach().numpy(), oracle, atol=1e-10)


def test_a_prompt_past_the_last_position_is_refused():
    with pytest.raises(ValueError, match=r"trained on 9 positions, the prompt has 10 letters"):
        random_model()(torch.zeros(1, 10, dtype=torch.int64))


def test_probes_are_1_for_stored_memories_and_small_for_empty_ones():
    law = TriggerLaw("qxz")
    model = InductionTransformer(256, 12, torch.Generator().manual_seed(1))
    E, p, U = model.embed, model.position, model.unembed
    before, found, q = E @ model.value1.T, E @ model.value2.T, torch.from_numpy(law.trigger_ids)
    model.key1.data = p[:-1].T @ p[1:]
    model.key2.data = before[q].T @ E[q]
    model.output2.data = U.T @ found
    assert probes(model, law) == {"wk0": 1.0, "wk1": 1.0, "wo1": 1.0}
    for name in LEARNT:
        getattr(model, name).data.zero_()
    assert max(probes(model, law).values()) < 0.15


def test_training_begun_again_ends_with_the_same_bits(tmp_path):
    whole, card = train(RECIPE)
    state = tmp_path / "state.safetensors"
    # Stopped before step 3 by a prompt that cannot be drawn, with step 2 saved.
    calls = []

    class Stop(Exception):
        pass

    import models.pretrain_induction as module

    drawn = module.batch_of

    def once(recipe, n, seed):
        calls.append(seed)
        if seed == 3 and calls.count(3) == 1:
            raise Stop
        return drawn(recipe, n, seed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "batch_of", once)
        with pytest.raises(Stop):
            train(RECIPE, state, save_every=2)
        assert state.exists()
        resumed, again = train(RECIPE, state, save_every=2)
    assert 0 not in calls[calls.index(3) + 1 :]
    for name, tensor in whole.items():
        assert torch.equal(tensor, resumed[name]), name
    strip = [{k: v for k, v in row.items() if k != "seconds"} for row in card["curve"]]
    assert strip == [{k: v for k, v in row.items() if k != "seconds"} for row in again["curve"]]
    with pytest.raises(ValueError, match="another recipe"):
        train(replace(RECIPE, seed=1), state)


def test_a_training_goes_through_its_folder(tmp_path):
    tensors, card = train(RECIPE)
    write_folder(tmp_path / "tiny", TINY, tensors, {"name": "tiny", **card})
    zoo.register("tiny", tmp_path)
    assert (zoo.names(tmp_path), zoo.trainings(tmp_path)) == ((), ("tiny",))
    assert zoo.training_config("tiny", tmp_path) == TINY
    loaded = zoo.training("tiny", tmp_path)
    assert isinstance(loaded, Training)
    tokens = encode("abqc")
    logits, A1, A2 = read_prompt(loaded, tokens)
    assert logits.shape == (3, V)
    assert A1.shape == A2.shape == (3, 4, 4)
    np.testing.assert_allclose(A1[0], np.tri(4) / np.arange(1, 5)[:, None], atol=1e-7)  # empty
    last = InductionTransformer(12, 9)
    last.load_state_dict(
        {k: v if k in FROZEN else v[-1] for k, v in tensors.items()},
    )
    assert torch.equal(torch.from_numpy(logits[-1]), last(torch.from_numpy(tokens)[None])[0][0, -1])
    for refused in (lambda: zoo.load("tiny", tmp_path), lambda: read_folder(tmp_path / "tiny")):
        with pytest.raises(CheckpointError, match="answers regression prompts, got the training"):
            refused()
    name = next(iter(zoo.names()))
    with pytest.raises(CheckpointError, match="expected the training of an induction head"):
        zoo.training(name)


def test_shapes_are_those_of_the_module():
    shapes = {k: tuple(v.shape) for k, v in Training(TINY).state_dict().items()}
    assert shapes == folder.expected_shapes(TINY)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_embd": 0}, "n_embd"),
        ({"n_positions": 10**6}, "n_positions"),
        ({"steps": [4, 2]}, "steps must rise"),
        ({"steps": []}, "1 to 64"),
        ({"steps": "many"}, "must be a list"),
        ({"law": {"triggers": "qq", "odds": 2}}, "each trigger"),
        ({"law": {"triggers": "q", "odds": 0.1}}, "odds"),
        ({"law": None}, "law must be an object"),
        ({"extra": 1}, "expected the keys"),
    ],
)
def test_a_bad_config_is_named(changes, message):
    raw = json.loads(json.dumps(TINY.to_json())) | changes
    with pytest.raises(CheckpointError, match=message):
        folder.read_config({"config.json": json.dumps(raw).encode()})


def test_config_goes_to_json_and_back():
    assert InductionConfig.from_json(json.loads(json.dumps(TINY.to_json()))) == TINY


def test_steps_are_on_a_log_scale():
    steps = log_steps(3000, 18)
    assert steps[:2] == (0, 50)
    assert steps[-1] == 3000
    ratios = np.diff(np.log(steps[1:]))
    assert ratios.std() < 0.02


def test_the_committed_head_is_born_and_its_card_is_true():
    config, card = zoo.training_config("induction-2"), zoo.card("induction-2")
    assert [row["step"] for row in card["curve"]] == list(config.steps)
    training, recipe = zoo.training("induction-2"), InductionRecipe(config)
    for snapshot in (0, len(config.steps) - 1):
        again, row = measure(recipe, training.at(snapshot)), card["curve"][snapshot]
        assert again == pytest.approx({k: row[k] for k in again}, abs=2e-3)
    first, last = card["curve"][0], card["curve"][-1]
    assert first["repeated"] < 2 * card["chance"]
    assert last["repeated"] > 0.9
    assert last["first"] < 2 * card["chance"]  # nobody can know those
    assert min(last["wk1"], last["wo1"]) == 1
    assert last["least_loss"] < last["loss"] < last["least_loss"] + 0.1
