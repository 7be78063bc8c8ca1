"""A Streamlit server and a Chromium of one's own: for timings, the README's pictures and tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

ROOT = Path(__file__).parents[1]
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
    # Chromium would start a renderer for toolbars of its own beside every page. The rest of the list is
    # what playwright switches off, which this replaces.
    "--disable-features=PreloadTopChromeWebUI,WebUIToolbar,PaintHolding,HttpsUpgrades,LensOverlay,MediaRouter,"
    "OptimizationHints,AvoidUnnecessaryBeforeUnloadCheckSync,DestroyProfileOnBrowserClose",
]

ALL_DRAWN = """() => {
  if (document.querySelector(".stApp")?.dataset.testScriptState !== "notRunning") return false;
  if (document.querySelector("[data-testid=stSkeleton], [data-testid=stAppSkeleton]")) return false;
  const ready = (e) => e.querySelector(".lab-copy[data-link], .lab-aid, .lab-tour-keys[data-lit]")
    || e.querySelector(".lab-chart[data-state=drawn][data-painted]");
  const parts = [...document.querySelectorAll(".stBidiComponent")];
  // Before anything is there all of it is ready; the floor's page has nothing but its slider.
  if (!parts.length && !document.querySelector(".stSlider")) return false;
  return parts.every(ready);
}"""
"""True when the script has ended and every chart and link of the page stands on the screen."""


@contextmanager
def serve(script: Path | str, **environment: str) -> Iterator[str]:
    """A Streamlit server on a free port, ready when yielded; the address without a path."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", str(script), "--server.headless=true"]
    command += [f"--server.port={port}", "--server.address=127.0.0.1"]
    command += ["--server.fileWatcherType=none"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen(command, cwd=ROOT, env=os.environ | environment, **quiet)
    try:
        address = f"http://127.0.0.1:{port}"
        wait_healthy(address, server)
        yield address
    finally:
        server.terminate()
        server.wait(30)


def wait_healthy(address: str, server: subprocess.Popen[bytes], seconds: float = 120) -> None:
    """Return when the server answers its health check."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if server.poll() is not None:
            raise RuntimeError(f"the server of {address} ended with status {server.returncode}")
        try:
            with urlopen(f"{address}/_stcore/health", timeout=1):
                return
        except OSError:
            time.sleep(0.05)
    raise TimeoutError(f"{address} did not answer within {seconds:g} s")


@contextmanager
def chromium() -> Iterator[Any]:
    """Debian's Chromium under playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()
