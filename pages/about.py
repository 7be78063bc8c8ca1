"""About: what this instance runs, on which files, under which limits, and how to cite it."""

from __future__ import annotations

import platform
import time
from importlib import metadata

import streamlit as st

from pages.ui import cache, frame, limits, observe, provenance

PACKAGES = (
    "streamlit", "plotly", "torch", "transformers", "numpy", "scipy", "scikit-learn", "safetensors",
)  # fmt: skip
LEAD = (
    "What runs here, on which files and under which limits. Name the version and the sums of the "
    "checkpoints with every number that you cite."
)
CITE = """
- *The claims:* Wu, Hsiao, Hu, Zhang and Liu, **In-Context Learning as Conditioned Associative Memory
  Retrieval**, ICML 2025.
- *The numbers:* Reshape Lab {version}, with the settings and the link that *Export* writes beside each picture.

The lab is under the MIT licence. SmolLM2-135M-Instruct, the default model of the text page, is by Hugging Face under
Apache-2.0 and no part of the lab.
"""


def render() -> None:
    st.html('<p class="lab-eyebrow">Lab</p><h1 class="lab-h1">About</h1>')
    st.markdown(LEAD)
    left, right = st.columns(2, gap="large")
    with left:
        st.html(frame.Facts(("",), versions(), "Versions").html())
    with right:
        st.html(frame.Facts(("now",), now(), "Limits in force").html())
        st.caption(
            "Results and uploads of all visitors together. When no more results fit, what was not asked for the "
            "longest leaves. Whoever comes while others compute waits in a queue, one turn a person."
        )
    st.html(frame.Facts(("sha256",), sums(), "Checkpoints").html())
    st.caption(
        "A checkpoint whose file has another sum is not loaded. Each one's training law and curve stand on the "
        "page *Checkpoints*."
    )
    st.html('<h2 class="lab-group">How to cite</h2>')
    st.markdown(CITE.format(version=provenance.VERSION))


def versions() -> list[tuple[str, ...]]:
    rows = [("Reshape Lab", provenance.VERSION), ("Python", platform.python_version())]
    for name in PACKAGES:
        try:
            rows.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            rows.append((name, "not installed"))
    return [*rows, ("serves since", in_words(time.time() - observe.STARTED))]


def now() -> list[tuple[str, ...]]:
    store = cache.STORE
    upload = st.get_option("server.maxUploadSize")
    rows = [(limit.what, f"{limit.value} {limit.unit}".strip()) for limit in limits.ALL]
    return [
        *rows,
        ("one uploaded file", f"{upload} MiB"),
        ("threads of one operation", "1"),
        ("results kept now", f"{store.bytes / limits.MIB:.1f} MiB"),
        ("memory now, with workers", f"{observe.all_resident_bytes() / limits.MIB:.0f} MiB"),
        ("people waiting now", str(sum(g.waiting for g in cache.GATES))),
    ]


def sums() -> list[tuple[str, ...]]:
    return [
        (f"{name} <small>{file}</small>", f"<code>{sum_}</code>")
        for name, files in cache.zoo_sums().items()
        for file, sum_ in sorted(files.items())
    ]


def in_words(seconds: float) -> str:
    """A length of time as one would say it."""
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        n = int(seconds // length)
        if n or unit == "second":
            return f"{n} {unit}" + ("" if n == 1 else "s")
    raise AssertionError
