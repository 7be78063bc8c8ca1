"""Where numbers come from: what every file that leaves the lab says of itself."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from pages.ui import cache
from pages.ui.controls import LINK_VERSION
from pages.ui.shown import Shown

LAB = "Reshape Lab"
VERSION = "0.1.0"

LIBRARIES = (
    "torch", "numpy", "scipy", "scikit-learn", "transformers", "streamlit", "plotly",
)  # fmt: skip

PAPER = """@inproceedings{wu2025camr,
  title     = {In-Context Learning as Conditioned Associative Memory Retrieval},
  author    = {Wu, Weimin and Hsiao, Teng-Yun and Hu, Jerry Yao-Chieh and Zhang, Wenxin and Liu, Han},
  booktitle = {Proceedings of the 42nd International Conference on Machine Learning},
  series    = {Proceedings of Machine Learning Research},
  volume    = {267},
  pages     = {67300--67325},
  year      = {2025},
  url       = {https://proceedings.mlr.press/v267/wu25k.html}
}"""

HOW = "The paper for its claims; the lab, with the link and the sums of the checkpoints, for the numbers."


def of_the_lab(link: str) -> str:
    return f"""@software{{reshape_lab,
  title   = {{{LAB}}},
  author  = {{{{Reshape contributors}}}},
  version = {{{VERSION}}},
  note    = {{Numbers of {link}}}
}}"""


def provenance(shown: Shown, link: str) -> dict[str, Any]:
    """Versions, seed, checkpoints with the sha256 of their files, link, and how to cite.

    Every export takes it from here. Versions are read from the installed packages without importing them.
    """
    return {
        "lab": LAB,
        "lab_version": VERSION,
        "link_version": LINK_VERSION,
        "page": shown.page,
        "link": link,
        "seed": shown.values.get("seed"),
        "versions": versions(),
        "checkpoints": {name: cache.sums(kind, name) for kind, name in shown.used},
        "cite": {"how": HOW, "paper": PAPER, "lab": of_the_lab(link)},
    }


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def one_line(block: Mapping[str, Any]) -> str:
    """The same for a cell of a table; the citation in full stands in the settings and the report."""
    libraries = ", ".join(f"{k} {v}" for k, v in block["versions"].items())
    sums = "".join(
        f"; {name}: {', '.join(f'{file} sha256 {s}' for file, s in files.items())}"
        for name, files in block["checkpoints"].items()
    )
    return (
        f"{LAB} {VERSION}; {block['link']}; {libraries}{sums}; cite: Wu et al., In-Context Learning as "
        "Conditioned Associative Memory Retrieval, ICML 2025"
    )


def comment(block: Mapping[str, Any]) -> str:
    """The same as comment lines of a program."""
    lines = [
        f"{LAB} {VERSION}: the numbers of {block['link']}",
        "Made with " + ", ".join(f"{k} {v}" for k, v in block["versions"].items()),
    ]
    for name, files in block["checkpoints"].items():
        lines += [f"Checkpoint {name}, {file}: sha256 {s}" for file, s in files.items()]
    lines += [
        f"Cite. {HOW}",
        *block["cite"]["paper"].splitlines(),
        *block["cite"]["lab"].splitlines(),
    ]
    return "".join(f"# {' '.join(line.splitlines())}\n" for line in lines)
