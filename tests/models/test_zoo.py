"""The manifest of checkpoints: what differs from it, or lies outside it, is refused."""

import json
import subprocess
import sys
import threading

import pytest
import torch

from core.prompts import PromptLaw, sample_prompts
from models import zoo
from models.folder import CheckpointError, write_folder


@pytest.fixture
def checkpoints(tiny_folder):
    zoo.write_manifest(tiny_folder.parent)
    return tiny_folder.parent


def test_every_committed_checkpoint_loads_and_none_lies_about_unregistered():
    folders = {p.name for p in zoo.CHECKPOINTS.iterdir() if p.is_dir()}
    assert folders == set(zoo.names()) | set(zoo.trainings())
    assert not set(zoo.names()) & set(zoo.trainings())
    for name in zoo.names():
        model = zoo.load(name)
        assert not model.training
        card = zoo.card(name)
        assert card["law"] == zoo.config(name).to_json()["law"]
        for file in (zoo.CHECKPOINTS / name).iterdir():
            assert file.stat().st_size < 16 * 2**20


def test_load_gives_the_model_and_predictor_its_name(checkpoints, tiny_model):
    assert zoo.names(checkpoints) == ("tiny",)
    assert zoo.config("tiny", checkpoints) == tiny_model.config
    assert zoo.card("tiny", checkpoints) == {"name": "tiny"}
    loaded = zoo.load("tiny", checkpoints)
    for name, tensor in tiny_model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)
    predictor = zoo.predictor("tiny", checkpoints)
    assert predictor.name == "tiny"
    prompts = sample_prompts(PromptLaw(n_dims=3), 4, 6, torch.Generator().manual_seed(0))
    assert predictor(prompts).shape == (4, 6)


def test_changed_bytes_are_refused(checkpoints):
    path = checkpoints / "tiny" / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(CheckpointError, match=r"tiny: model\.safetensors differ from MANIFEST"):
        zoo.load("tiny", checkpoints)


def test_changed_config_and_missing_weights_are_refused(checkpoints):
    config = checkpoints / "tiny" / "config.json"
    config.write_text(config.read_text() + "\n")
    with pytest.raises(CheckpointError, match=r"config\.json differ"):
        zoo.load("tiny", checkpoints)
    zoo.write_manifest(checkpoints)
    zoo.load("tiny", checkpoints)
    (checkpoints / "tiny" / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"model\.safetensors differ"):
        zoo.load("tiny", checkpoints)


@pytest.mark.parametrize(
    "name", ["", "..", "../tiny", "tiny/..", "/etc", "Tiny", "a b", "tiny\0", "x" * 65, None, 3]
)
def test_names_that_could_leave_the_folder_are_refused(checkpoints, name):
    for read in (zoo.load, zoo.config, zoo.card):
        with pytest.raises(CheckpointError, match="lower-case letters, digits and hyphens"):
            read(name, checkpoints)


def test_unknown_and_unregistered_names_list_what_there_is(checkpoints, tiny_model):
    write_folder(checkpoints / "new", tiny_model.config, tiny_model.state_dict(), {})
    with pytest.raises(CheckpointError, match="no checkpoint 'new'; there are: tiny"):
        zoo.load("new", checkpoints)
    assert set(zoo.write_manifest(checkpoints)) == {"tiny", "new"}
    zoo.load("new", checkpoints)


def test_a_broken_folder_is_not_registered(checkpoints):
    path = checkpoints / "tiny" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    before = (checkpoints / zoo.MANIFEST).read_text()
    with pytest.raises(CheckpointError, match="truncated"):
        zoo.write_manifest(checkpoints)
    assert (checkpoints / zoo.MANIFEST).read_text() == before


def test_many_threads_load_at_once(checkpoints, tiny_model):
    """Builds clash inside transformers without the lock."""
    found, errors = [], []

    def load():
        try:
            found.append(zoo.load("tiny", checkpoints).read_out.weight)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=load) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert all(torch.equal(weight, tiny_model.read_out.weight) for weight in found)
    assert len(found) == 8


def test_importing_the_zoo_is_light():
    """The home page lists checkpoints without torch."""
    code = (
        "import sys; from models import zoo; zoo.names(); "
        "assert not {'torch', 'transformers'} & set(sys.modules), 'heavy'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=zoo.CHECKPOINTS.parents[1])


def test_command_writes_and_lists(checkpoints, capsys):
    (checkpoints / zoo.MANIFEST).unlink()
    zoo.main(["--write-manifest", "--checkpoints", str(checkpoints)])
    assert capsys.readouterr().out.startswith("tiny ")
    sums = json.loads((checkpoints / zoo.MANIFEST).read_text())
    assert set(sums["tiny"]) == {"config.json", "model.safetensors"}


def test_version_follows_weights_and_config(checkpoints, tiny_model):
    before = zoo.version("tiny", checkpoints)
    state = {k: v + 1 for k, v in tiny_model.state_dict().items()}
    write_folder(checkpoints / "tiny", tiny_model.config, state, {})
    zoo.register("tiny", checkpoints)
    assert zoo.version("tiny", checkpoints) != before
    write_folder(
        checkpoints / "tiny", tiny_model.config, tiny_model.state_dict(), {"other": "card"}
    )
    zoo.register("tiny", checkpoints)
    assert zoo.version("tiny", checkpoints) == before
