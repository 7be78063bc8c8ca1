"""States of Garg et al.'s code, rebuilt here in our own words, give the same predictions."""

from pathlib import Path

import pytest
import torch
import yaml
from torch import nn
from transformers import GPT2Config, GPT2Model

from core.prompts import PromptLaw, sample_prompts
from models.convert import SIZES, convert, main, read_state
from models.folder import CheckpointError, read_folder
from models.predictor import TransformerPredictor


class Published(nn.Module):
    """The published regressor: GPT-2 with its default activation (gelu_new) and 50257 words,
    `2 * n_positions` positions, tokens x1, (y1, 0, ...), x2, ...; answers at the x tokens."""

    def __init__(self, n_dims, n_positions, n_embd, n_layer, n_head):
        super().__init__()
        self._read_in = nn.Linear(n_dims, n_embd)
        self._backbone = GPT2Model(
            GPT2Config(
                n_positions=2 * n_positions,
                n_embd=n_embd,
                n_layer=n_layer,
                n_head=n_head,
                resid_pdrop=0.0,
                embd_pdrop=0.0,
                attn_pdrop=0.0,
                use_cache=False,
            )
        )
        self._read_out = nn.Linear(n_embd, 1)

    def forward(self, xs, ys):
        batch, points, dims = xs.shape
        tokens = torch.zeros(batch, 2 * points, dims)
        tokens[:, 0::2] = xs
        tokens[:, 1::2, 0] = ys
        hidden = self._backbone(inputs_embeds=self._read_in(tokens)).last_hidden_state
        return self._read_out(hidden)[:, 0::2, 0]


def published(size, n_dims=5, n_positions=41):
    """Random weights far from their small start, with a trained-looking scale."""
    torch.manual_seed(0)
    model = Published(n_dims, n_positions, *SIZES[size])
    assert model._backbone.config.activation_function == "gelu_new"
    with torch.no_grad():
        for name, param in model.named_parameters():
            if param.ndim == 2 and "wte" not in name:
                param.mul_(4 if "h." in name else 2)
            elif param.ndim == 1:
                param.add_(0.1 * torch.randn_like(param))
    return model.eval()


def save(model, path, buffers=True, bare=False):
    """As their trainer does, with the causal masks that transformers kept in states then."""
    state = model.state_dict()
    n_positions = state["_backbone.wpe.weight"].shape[0]
    for layer in range(model._backbone.config.n_layer if buffers else 0):
        mask = torch.ones(1, 1, n_positions, n_positions).tril().to(torch.uint8)
        state[f"_backbone.h.{layer}.attn.bias"] = mask
        state[f"_backbone.h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    whole = {"model_state_dict": state, "optimizer_state_dict": optimizer.state_dict()}
    torch.save(state if bare else whole | {"train_step": 500_000}, path)


def config_yaml(path, model, **training):
    sizes = {key: getattr(model._backbone.config, key) for key in ("n_embd", "n_layer", "n_head")}
    sizes |= {"n_dims": model._read_in.in_features, "n_positions": 41, "family": "gpt2"}
    points = {"start": 11, "end": 41, "inc": 2, "interval": 2000}
    raw = {"task": "linear_regression", "task_kwargs": {}, "data": "gaussian"} | training
    raw |= {"curriculum": {"dims": {}, "points": points}}
    path.write_text(yaml.dump({"model": sizes, "training": raw, "out_dir": "../models"}))
    return path


def assert_same_answers(model, folder, n_points):
    converted = read_folder(folder)
    law = PromptLaw(n_dims=5, covariates="isotropic")
    prompts = sample_prompts(law, 8, n_points, torch.Generator().manual_seed(0))
    xs, ys = prompts.xs.float(), prompts.ys.float()
    with torch.no_grad():
        expected = model(xs, ys)
    assert expected.std() > 0.5
    assert (converted(xs, ys) - expected).abs().max() < 1e-5 * expected.abs().max()
    found = TransformerPredictor(converted)(prompts)
    assert (found - expected).abs().max() < 1e-5 * expected.abs().max()
    return converted


@pytest.mark.parametrize("size", ["tiny", "small", "standard"])
def test_published_sizes_give_the_same_predictions(size, tmp_path):
    model = published(size)
    save(model, tmp_path / "state.pt")
    convert(tmp_path / "state.pt", tmp_path / "out", size=size)
    converted = assert_same_answers(model, tmp_path / "out", 41)
    config = converted.config
    assert (config.n_embd, config.n_layer, config.n_head) == SIZES[size]
    assert config.max_examples == 40
    assert config.target_scale == 1.0
    # the word embedding alone would take 51 MB in the standard size
    sizes = [p.stat().st_size for p in (tmp_path / "out").iterdir()]
    assert max(sizes) < 16 * 2**20
    assert (len(sizes) > 3) == (size == "standard")


def test_config_yaml_gives_heads_and_law(tmp_path):
    model = published("tiny")
    save(model, tmp_path / "state.pt", buffers=False)
    text = config_yaml(tmp_path / "config.yaml", model)
    config = convert(tmp_path / "state.pt", tmp_path / "out", config_path=text)
    assert_same_answers(model, tmp_path / "out", 30)
    assert config.law.n_examples == 41
    assert (config.law.task, config.law.mean, config.n_dims) == ("linear", 0.0, 5)


@pytest.mark.parametrize(
    ("task", "settings", "ours"),
    [
        ("sparse_linear_regression", {"sparsity": 3}, "sparse"),
        ("relu_2nn_regression", {"hidden_layer_size": 100}, "relu"),
        ("decision_tree", {"depth": 4}, "tree"),
    ],
)
def test_tasks_become_ours(tmp_path, task, settings, ours):
    model = published("tiny")
    save(model, tmp_path / "model_5000.pt", bare=True)
    text = config_yaml(tmp_path / "c.yaml", model, task=task, task_kwargs=settings)
    config = convert(tmp_path / "model_5000.pt", tmp_path / "out", config_path=text)
    assert config.law.task == ours


def test_the_step_is_on_the_card(tmp_path):
    from models.folder import read_card

    model = published("tiny")
    save(model, tmp_path / "state.pt")
    convert(tmp_path / "state.pt", tmp_path / "out", size="tiny")
    card = read_card({"card.json": (tmp_path / "out" / "card.json").read_bytes()})
    assert card["steps"] == 500_000
    assert read_state(tmp_path / "state.pt")[1] == 500_000


# --- What is refused -----------------------------------------------------------------------------


def refused(path, tmp_path, message, **kwargs):
    with pytest.raises(CheckpointError, match=message):
        convert(path, tmp_path / "out", **({"size": "tiny"} | kwargs))
    assert not (tmp_path / "out").exists()


class Runs:
    def __reduce__(self):
        return (Path("/tmp/unpickled-by-convert").touch, ())


def test_a_pickle_that_runs_code_is_refused_and_not_run(tmp_path):
    torch.save({"model_state_dict": Runs()}, tmp_path / "state.pt")
    refused(tmp_path / "state.pt", tmp_path, "is no state of tensors")
    assert not Path("/tmp/unpickled-by-convert").exists()


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "state.pt"
    path.write_bytes(b"no pickle at all")
    refused(path, tmp_path, "is no state of tensors")
    path.write_bytes(b"")
    refused(path, tmp_path, "is no state of tensors")
    torch.save([1, 2], path)
    refused(path, tmp_path, "expected model_state_dict")
    torch.save({"weight": torch.zeros(2, 2)}, path)
    refused(path, tmp_path, "no matrix _read_in.weight")


def test_other_models_are_refused(tmp_path):
    path, model = tmp_path / "state.pt", published("tiny")
    save(model, path)
    refused(path, tmp_path, "size small has n_embd 128 and n_layer 6, the state", size="small")
    refused(path, tmp_path, "does not tell n_head", size=None)
    state = dict(model.state_dict())
    del state["_backbone.h.1.mlp.c_fc.bias"]
    torch.save(state, path)
    refused(path, tmp_path, r"c_fc\.bias: expected shape \[256\], the state has no such tensor")
    torch.save(model.state_dict() | {"_extra": torch.zeros(1)}, path)
    refused(path, tmp_path, "extra: expected no such tensor, the state has shape")
    broken = {k: v.clone() for k, v in model.state_dict().items()}
    broken["_read_out.bias"][0] = float("nan")
    torch.save(broken, path)
    refused(path, tmp_path, "_read_out.bias holds NaN")


def test_other_configs_are_refused(tmp_path):
    path, model = tmp_path / "state.pt", published("tiny")
    save(model, path, buffers=False)
    text = tmp_path / "config.yaml"

    def with_config(message, **training):
        config_yaml(text, model, **training)
        refused(path, tmp_path, message, size=None, config_path=text)

    with_config("task must be one of", task="linear_classification")
    with_config("depth = 6 is not drawn here", task="decision_tree", task_kwargs={"depth": 6})
    with_config("inputs must be gaussian", data="uniform")
    for raw, message in (
        ("a: [", "is no YAML"),
        ("- 1", "section model is missing"),
        ("model: {family: lstm}\ntraining: {}", "describes family 'lstm'"),
        ("!!python/object/apply:os.getcwd []", "is no YAML"),
    ):
        text.write_text(raw)
        refused(path, tmp_path, message, size=None, config_path=text)


def test_command_line(tmp_path, capsys):
    save(published("tiny"), tmp_path / "state.pt", buffers=False)
    line = [str(tmp_path / "state.pt"), str(tmp_path / "out"), "--size", "tiny"]
    message = "models.convert: training prompts of 100 points do not fit the 82 positions"
    with pytest.raises(SystemExit, match=message):
        main([*line, "--task", "decision_tree", "--examples", "100"])
    main([*line, "--task", "decision_tree"])
    assert "task='tree'" in capsys.readouterr().out
