"""What the tests of pages share."""

import pytest

from pages.ui import cache, frame
from tests.pages.stand_ins import stand_in_zoo


@pytest.fixture(scope="session")
def zoo_folder(tmp_path_factory):
    return stand_in_zoo(tmp_path_factory.mktemp("zoo"))


@pytest.fixture
def stand_ins(zoo_folder, monkeypatch):
    """The pages see the stand-in zoo."""
    monkeypatch.setattr(cache, "ZOO", zoo_folder)
    return zoo_folder


@pytest.fixture
def figures(monkeypatch):
    """Every figure a page draws, by its key; the newest stays."""
    drawn = {}
    original = frame.Page.chart

    def chart(self, fig, key, *args, **kwargs):
        drawn[key] = fig
        return original(self, fig, key, *args, **kwargs)

    monkeypatch.setattr(frame.Page, "chart", chart)
    return drawn
