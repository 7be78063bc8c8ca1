"""Builds the image's file system by the Dockerfile's own steps, without a container engine, and visits the lab in it.

    python -m deploy.check_image --work /var/tmp/lab-image          # as root; needs debootstrap and chromium

A bare Debian with its python3 stands in for the base image. Every RUN happens in a chroot of it. The result is
then started as compose.yaml starts it: as user 10001, the root file system read-only, /tmp a tmpfs, without any
network but loopback. Its health check is asked and Chromium opens pages; pictures go to ci-output/.
Takes minutes, since it installs torch. What pip needs here beyond Debian's defaults is passed in: `--bind PATH`,
`--env NAME`.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from deploy import dockerfile
from deploy.dockerfile import ROOT, Context, Stage

DEBIAN = "bookworm"
BASE_PACKAGES = "python3,python3-venv,ca-certificates"
ADDRESS = "http://127.0.0.1:8501"
VISITS = ("", "landscape", "regression", "text")  # text: the model that was unpacked in the build


def make_base(folder: Path) -> None:
    """A bare Debian, unless it is there: what stands in for the base image."""
    done = folder.with_suffix(".done")
    if not done.exists():
        subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={BASE_PACKAGES}", DEBIAN, folder], check=True
        )  # fmt: skip
        done.touch()
    python = folder / "usr/local/bin/python"
    if not python.is_symlink():
        python.symlink_to("/usr/bin/python3")


def inside(
    root: Path,
    words: Sequence[str],
    environment: Mapping[str, str],
    folder: str,
    *,
    user: str = "0:0",
    binds: Sequence[str] = (),
    read_only: bool = False,
) -> list[str]:
    """The command line that runs `words` in the root; its mounts live and end with it."""
    at = shlex.quote(str(root))
    mounts = [f"mount --bind {at} {at}"]
    for path in binds:
        place = shlex.quote(f"{root}{path}")
        made = (
            f"mkdir -p {place}"
            if Path(path).is_dir()
            else f"mkdir -p $(dirname {place}) && touch {place}"
        )
        mounts.append(f"{made} && mount --bind -o ro {shlex.quote(path)} {place}")
    if read_only:
        mounts.append(f"mount -o remount,bind,ro {at}")
    mounts += [
        f"mount -t proc proc {at}/proc",
        f"mount --rbind /dev {at}/dev",
        f"mount -t tmpfs -o mode=1777 tmpfs {at}/tmp",
    ]
    variables = [f"{k}={v}" for k, v in environment.items()]
    shell = f"cd {shlex.quote(folder)} && exec {shlex.join(words)}"
    run = [
        "chroot",
        f"--userspec={user}",
        str(root),
        "/usr/bin/env",
        "-i",
        *variables,
        "sh",
        "-c",
        shell,
    ]
    script = " && ".join([*mounts, f"exec {shlex.join(run)}"])
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script]


PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Builder:
    """Follows the steps of each stage in a root of its own."""

    def __init__(self, work: Path, binds: Sequence[str], passed: Mapping[str, str]) -> None:
        self.work, self.binds, self.passed = work, binds, passed
        self.context = Context()

    def build(self, stage: Stage) -> Path:
        root = self.work / stage.name
        shutil.rmtree(root, ignore_errors=True)
        subprocess.run(["cp", "-a", self.work / "base", root], check=True)
        environment, folder, arguments = {"PATH": PATH}, "/", {}
        for step in stage.steps:
            print(f"{stage.name}: {step.kind} {step.text[:100]}", flush=True)
            if step.kind == "ARG":
                name, _, default = step.text.partition("=")
                arguments[name] = self.passed.get(name, default)
            elif step.kind == "ENV":
                known = environment | arguments
                environment |= dockerfile.pairs(dockerfile.filled(step.text, known))
            elif step.kind == "WORKDIR":
                folder = step.text
                (root / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
            elif step.kind == "COPY":
                self._copy(root, folder, step.text)
            elif step.kind == "RUN":
                known = environment | arguments | self.passed
                words = ["sh", "-c", step.text]
                subprocess.run(inside(root, words, known, folder, binds=self.binds), check=True)
        return root

    def _copy(self, root: Path, folder: str, text: str) -> None:
        stage, sources, destination = dockerfile.copied(text)
        to = root / os.path.join(folder, destination).lstrip("/")  # noqa: PTH118 - as the image reads it
        for source in sources:
            if stage is not None:
                to.parent.mkdir(parents=True, exist_ok=True)
                subprocess.run(
                    ["cp", "-a", "-T", self.work / stage / source.lstrip("/"), to], check=True
                )
                continue
            files = self.context.files(source)
            if not files:
                raise ValueError(
                    f"COPY {source}: there is no such file, or .dockerignore keeps it out"
                )
            for file in files:
                inner = file.relative_to(source) if (ROOT / source).is_dir() else Path(file.name)
                whole = to / inner if (ROOT / source).is_dir() or destination.endswith("/") else to
                whole.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / file, whole)


def settings(stages: Sequence[Stage]) -> tuple[dict[str, str], str, str, list[str], list[str]]:
    """Environment, folder, user, command and health check of the image."""
    environment, folder, user = {"PATH": PATH}, "/", "0:0"
    start: list[str] = []
    health: list[str] = []
    for step in stages[-1].steps:
        if step.kind == "ENV":
            environment |= dockerfile.pairs(dockerfile.filled(step.text, environment))
        elif step.kind == "WORKDIR":
            folder = step.text
        elif step.kind == "USER":
            user = step.text
        elif step.kind == "CMD":
            start = dockerfile.command(step.text)
        elif step.kind == "HEALTHCHECK":
            health = dockerfile.command(step.text.partition("CMD ")[2])
    return environment, folder, user, start, health


def visit(root: Path, stages: Sequence[Stage]) -> None:
    """Start the image and look at it. To be called where there is no network but loopback."""
    from benchmarks.browser import ALL_DRAWN, chromium, wait_healthy

    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    environment, folder, user, start, health = settings(stages)
    how = {"user": user, "read_only": True}
    refused = inside(root, ["touch", f"{folder}/x"], environment, folder, **how)
    assert subprocess.run(refused, capture_output=True).returncode, "the root can be written to"
    log = ROOT / "ci-output" / "image-server.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("w") as out:
        server = subprocess.Popen(
            inside(root, start, environment, folder, **how), stdout=out, stderr=out
        )
    try:
        wait_healthy(ADDRESS, server, 300)
        subprocess.run(inside(root, health, environment, folder, **how), check=True, timeout=60)
        print("health check: passed", flush=True)
        with chromium() as browser:
            page = browser.new_page()
            page.set_default_timeout(240_000)
            wrong: list[str] = []
            page.on("pageerror", lambda e: wrong.append(str(e)))
            for name in VISITS:
                page.goto(f"{ADDRESS}/{name}")
                page.wait_for_function(ALL_DRAWN)
                page.locator("h1").first.wait_for()
                shown = page.locator("[data-testid=stException], .st-key-lab-refused").count()
                page.screenshot(path=ROOT / "ci-output" / f"image-{name or 'home'}.png")
                assert not wrong, f"/{name}: {wrong}"
                assert not shown, f"/{name}: {page.inner_text('body')[:500]}"
                print(f"/{name}: drawn", flush=True)
        peak = _peak(server.pid)
        print(f"most memory of one process of the image: {peak / 2**20:.0f} MiB", flush=True)
    finally:
        server.kill()  # and with it all that runs in its process namespace
        server.wait(30)
    text = log.read_text()
    assert "Traceback" not in text, text[-2000:]


def _peak(parent: int) -> int:
    """The largest resident size that a descendant of the process has had."""
    sizes, above = {}, {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = dict(
                line.split(":", 1) for line in status.read_text().splitlines() if ":" in line
            )
        except OSError:  # it has ended
            continue
        pid = int(status.parent.name)
        above[pid] = int(lines["PPid"])
        sizes[pid] = int(lines.get("VmHWM", "0 kB").split()[0]) * 1024

    def below(pid: int) -> bool:
        while pid in above:
            if pid == parent:
                return True
            pid = above[pid]
        return False

    return max(size for pid, size in sizes.items() if below(pid))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--work", type=Path, default=Path("/var/tmp/lab-image"), help="where it is built"
    )
    parser.add_argument(
        "--bind", action="append", default=[], help="a path of this machine for pip"
    )
    parser.add_argument(
        "--env", action="append", default=[], help="NAME or NAME=VALUE for the build"
    )
    parser.add_argument("--visit", action="store_true", help="only start what was built")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    stages = dockerfile.stages((ROOT / "Dockerfile").read_text())
    root = args.work / stages[-1].name
    if args.alone:
        return visit(root, stages)
    if not args.visit:
        began = time.monotonic()
        args.work.mkdir(parents=True, exist_ok=True)
        make_base(args.work / "base")
        passed = dict(e.split("=", 1) if "=" in e else (e, os.environ[e]) for e in args.env)
        builder = Builder(args.work, args.bind, passed)
        for stage in stages:
            builder.build(stage)
        size = subprocess.run(
            ["du", "-sm", root], check=True, capture_output=True, text=True
        ).stdout
        print(f"built in {time.monotonic() - began:.0f} s, {size.split()[0]} MiB", flush=True)
    alone = [sys.executable, "-m", "deploy.check_image", "--alone", "--work", str(args.work)]
    subprocess.run(["unshare", "--net", *alone], check=True, cwd=ROOT)
    print("the image is well", flush=True)


if __name__ == "__main__":
    main()
