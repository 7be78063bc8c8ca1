"""A lab of one page that shows everything the platform can do, for the browser tests. Not part of the app.

Run by hand: `streamlit run tests/browser/fixture_app.py`.
"""

import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import streamlit as st

sys.path.insert(0, str(Path(__file__).parents[2]))
from pages import catalog
from pages.ui import cache, charts, controls, frame, panel
from pages.ui.chart_view import Frames

PAGE = "demo"

catalog.PAGES = (
    catalog.HOME,
    catalog.Entry(
        name=PAGE, title="Demo", group="Tests", icon=":material/science:", blurb="All parts."
    ),
)
controls.register(
    controls.Number(
        page=PAGE, key="beta", label="β inverse temperature", default=4.0, low=0.1, high=100.0, step=0.05,
        log=True, help="Large β: sharp wells.", section="Energy",
    ),
    controls.Number(page=PAGE, key="noise", label="Noise", default=0.1, low=0.0, high=10.0, step=0.1),
    controls.Number(page=PAGE, key="count", label="M memories", default=5, low=1, high=64, step=1),
    controls.Choice(
        page=PAGE, key="layout", label="Layout", default="random", section="Data",
        options=("random", "on a circle"),
    ),
    controls.Toggle(page=PAGE, key="solid", label="Also in 3-D", default=False),
    controls.Toggle(page=PAGE, key="broken", label="Break some numbers", default=False),
    controls.Number(page=PAGE, key="x", label="Query x", default=0.3, low=-1.0, high=1.0, step=0.01),
    controls.Number(page=PAGE, key="y", label="Query y", default=0.2, low=-1.0, high=1.0, step=0.01),
    controls.seed(PAGE, section="Data"),
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    beta: float
    noise: float
    count: int
    layout: str
    solid: bool
    broken: bool
    x: float
    y: float
    seed: int


SCENARIOS = (
    controls.Scenario(
        name="sharp", label="Sharp wells", values={"beta": 40.0}, claim="One well a memory."
    ),
    controls.Scenario(
        name="flat", label="One basin", values={"beta": 0.2}, claim="One well for all."
    ),
)


@cache.shared(16)
def energy(
    beta: float, count: int, circle: bool, noise: float, broken: bool, seed: int
) -> np.ndarray:
    if count > 50:
        raise ValueError("this demo holds at most 50 memories: choose fewer.")
    rng = np.random.default_rng(seed)
    a = np.linspace(0, 2 * np.pi, count, endpoint=False)
    xi = 0.7 * np.stack([np.cos(a), np.sin(a)], 1) if circle else rng.uniform(-0.9, 0.9, (count, 2))
    xi = xi + 0.1 * noise * rng.standard_normal(xi.shape)
    g = np.linspace(-1, 1, 81)
    x = np.stack(np.meshgrid(g, g), -1)
    z = np.log(np.exp(-beta * ((x[:, :, None] - xi) ** 2).sum(-1)).sum(-1) + 1e-300) / -beta
    if broken:
        z[20:40, 20:30] = np.nan
    return z


def compute(s: Settings) -> np.ndarray:
    return energy(s.beta, s.count, s.layout == "on a circle", s.noise, s.broken, s.seed)


def snippet(s: Settings) -> str:
    return f"settings = {asdict(s)!r}\nprint(settings['beta'] * settings['count'])\n"


def clicked(point: dict) -> None:
    panel.set_values(PAGE, {"x": round(point["x"], 2), "y": round(point["y"], 2)})


def render() -> None:
    page = frame.open_page(
        PAGE, Settings, SCENARIOS,
        lead="A page with everything the platform offers, used by the browser tests and nobody else.",
        equation=r"E(x) = -\tfrac{1}{\beta}\log\sum_\mu e^{-\beta\,|x-\xi_\mu|^2}",
        symbols={r"\beta": "inverse temperature", r"\xi_\mu": "memory number μ"},
    )  # fmt: skip
    z = page.compute(compute, lambda r: {"energy E": r})
    s = page.settings
    g = np.linspace(-1, 1, 81)
    path = np.linspace([0, 0], [s.x, s.y], 12)
    fig = charts.figure(
        charts.heatmap(z, g, g, "energy"),
        charts.line(path[:, 0], path[:, 1], "path", 1, mode="lines+markers"),
        height=460, title="Energy on the plane", **charts.square("u", "v"),
    )  # fmt: skip
    frames = Frames(
        data=[{1: {"x": path[: i + 1, 0], "y": path[: i + 1, 1]}} for i in range(len(path))],
        labels=[f"step {i} of {len(path) - 1}" for i in range(len(path))],
        group="path",
    )
    page.chart(
        charts.greyed(fig), "plane", "Heatmap of the energy", frames=frames, on_click=clicked
    )
    page.look_for(f"β M = **{s.beta * s.count:.4f}**: the lowest energy is **{np.nanmin(z):.4f}**.")
    if s.solid:
        solid = charts.figure(charts.surface(z, g, g, "energy"), height=460)
        page.chart(solid, "surface", "The same in 3-D")
    page.chart(
        charts.lines(
            g, {"middle row": z[40], "middle column": z[:, 40]},
            bands={"middle row": (z[40] - 0.1, z[40] + 0.1)}, x="u", y="E", height=320,
        ),
        "rows", "Two cuts through the energy",
    )  # fmt: skip
    page.refuted_by("A well where no memory is.")
    page.finish(snippet(s))


if __name__ == "__main__":
    st.set_page_config(layout="wide")
    st.navigation(
        [
            st.Page(lambda: frame.framed(render), title="Demo", url_path="demo", default=False),
            st.Page(lambda: st.write("else"), title="Other", url_path="other", default=True),
        ],
        position="top",
    ).run()
