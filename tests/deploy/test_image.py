"""The Dockerfile, compose.yaml and the proxy's settings, as far as they can be checked without an engine.

`python -m deploy.check_image` builds the image's file system and starts it; that takes minutes and root.
"""

import re
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml
from streamlit import config

from deploy import dockerfile
from deploy.dockerfile import ROOT, Context

TEXT = (ROOT / "Dockerfile").read_text()
STAGES = dockerfile.stages(TEXT)
LAST = STAGES[-1]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
PINNED = re.compile(r"[\w./-]+:[\w.-]*\d[\w.-]*")


def texts(stage, kind):
    return [step.text for step in stage.steps if step.kind == kind]


def environment(stage):
    known = {}
    for text in texts(stage, "ENV"):
        known |= dockerfile.pairs(dockerfile.filled(text, known | {"PATH": "/bin"}))
    return known


# ---- Dockerfile ----------------------------------------------------------------------------------


def test_the_reader_refuses_what_it_does_not_know():
    with pytest.raises(ValueError, match="line 3: expected one of ARG"):
        dockerfile.stages("ARG A=1\nFROM x AS y\nADD http://a.b /")
    with pytest.raises(ValueError, match="stands before any FROM"):
        dockerfile.stages("RUN true")


def test_the_reader_joins_lines_and_fills_arguments():
    (stage,) = dockerfile.stages(
        "ARG B=x:1\n# note\nFROM ${B} AS s\nRUN a \\\n  # inside\n  && b\n"
    )
    assert (stage.base, stage.name) == ("x:1", "s")
    assert [(s.kind, " ".join(s.text.split()), s.line) for s in stage.steps] == [
        ("RUN", "a && b", 4)
    ]
    (other,) = dockerfile.stages("ARG B=x:1\nFROM ${B}", {"B": "y:2"})
    assert other.base == "y:2"


def test_ignored_files_are_told_by_the_last_rule_that_fits(tmp_path):
    (tmp_path / ".dockerignore").write_text("*\n!a\n!b.txt\n**/x\n# !c\n")
    context = Context(tmp_path)
    got = {p: context.lets_in(p) for p in ("a/1", "a/x/2", "b.txt", "c", "x", "a/sub/deep")}
    assert got == {
        "a/1": True,
        "a/x/2": False,
        "b.txt": True,
        "c": False,
        "x": False,
        "a/sub/deep": True,
    }


def test_stages_start_from_a_pinned_image_and_end_without_rights():
    assert all(PINNED.fullmatch(stage.base) for stage in STAGES)
    (user,) = texts(LAST, "USER")
    assert re.fullmatch(
        r"[1-9]\d{3,}:[1-9]\d{3,}", user
    )  # by number, so that an engine can see it is not root
    after = [step.kind for step in LAST.steps][[s.kind for s in LAST.steps].index("USER") :]
    assert not {"COPY", "RUN"} & set(after)


def test_pip_keeps_no_cache_and_installs_what_is_pinned():
    for stage in STAGES:
        for text in texts(stage, "RUN"):
            for one in re.split(r"&&|;", text):
                if "pip install" in one:
                    assert "--no-cache-dir" in one
                    assert "-r requirements" in one or "==" in one, one
    pin = re.findall(r"^torch==\S+", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    found = subprocess.run(
        ["grep", "-o", "^torch==[^ ]*", "requirements.txt"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert found.stdout.split() == pin  # as the Dockerfile reads it


def test_what_is_copied_is_there_and_is_what_the_lab_needs():
    context = Context()
    for stage in STAGES:
        for text in texts(stage, "COPY"):
            source, names, _ = dockerfile.copied(text)
            if source is None:
                assert all(context.files(name) for name in names), text
            else:
                assert source in {s.name for s in STAGES}
    brought = {
        path
        for text in texts(LAST, "COPY")
        if dockerfile.copied(text)[0] is None
        for name in dockerfile.copied(text)[1]
        for path in context.files(name)
    }
    needed = {
        path.relative_to(ROOT)
        for folder in ("core", "models", "pages")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.endswith(".partial")
    }
    assert needed <= brought
    assert {Path("app.py"), Path(".streamlit/config.toml")} <= brought


@pytest.mark.parametrize(
    "path",
    [
        ".streamlit/secrets.toml",
        "deploy/secrets/secrets.toml",
        ".git/config",
        "deploy/lab.env",
        ".venv/x",
    ],
)
def test_secrets_stay_out_of_the_image(path):
    assert not Context().lets_in(path)


def test_streamlit_knows_every_variable():
    for stage in (LAST,):
        names = [n for n in environment(stage) if n.startswith("STREAMLIT_")]
        known = {
            "STREAMLIT_" + re.sub(r"(?<!^)(?=[A-Z])", "_", key.replace(".", "_")).upper()
            for key in config.get_config_options()
        }
        assert names
        assert set(names) <= known


def test_the_image_writes_nowhere_and_asks_nobody():
    known = environment(LAST)
    assert known["HF_HUB_OFFLINE"] == "1"
    assert known["PYTHONDONTWRITEBYTECODE"] == "1"
    assert known["STREAMLIT_SERVER_FILE_WATCHER_TYPE"] == "none"
    assert (
        known["XDG_CACHE_HOME"] == environment(STAGES[0])["XDG_CACHE_HOME"]
    )  # the model is where it is sought


@pytest.mark.parametrize(("status", "well"), [(200, True), (503, False)])
def test_the_health_check_tells_well_from_ill(status, well):
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status if self.path == "/_stcore/health" else 404)
            self.end_headers()

        def log_message(self, *what):
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (text,) = texts(LAST, "HEALTHCHECK")
    words = dockerfile.command(text.partition("CMD ")[2].replace("8501", str(server.server_port)))
    done = subprocess.run([sys.executable, *words[1:]], capture_output=True, timeout=60)
    server.shutdown()
    server.server_close()
    assert words[0] == "python"
    assert (done.returncode == 0) is well


def test_the_commands_have_these_options():
    from distributed.cli import dask_scheduler, dask_worker
    from streamlit.web import cli

    (text,) = texts(LAST, "CMD")
    asked = {
        cli.main.commands["run"]: dockerfile.command(text),
        dask_scheduler.main: SERVICES["scheduler"]["command"],
        dask_worker.main: SERVICES["worker"]["command"],
    }
    for command, words in asked.items():
        known = {option for p in command.params for option in (*p.opts, *p.secondary_opts)}
        said = {word.split("=")[0] for word in words if word.startswith("--")}
        assert said
        assert said <= known
        assert shutil.which(words[0], path=str(Path(sys.executable).parent))


def test_sweeps_ask_the_scheduler():
    from models.sweep import main

    entry = SERVICES["sweep"]["entrypoint"]
    assert entry[:3] == ["python", "-m", main.__module__]
    assert entry[3:] == ["--scheduler", "tcp://scheduler:8786"]


# ---- compose.yaml --------------------------------------------------------------------------------


def test_one_service_by_default():
    assert {name for name, s in SERVICES.items() if not s.get("profiles")} == {"lab"}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_locked(name):
    s = SERVICES[name]
    assert s["read_only"] is True
    assert s["cap_drop"] == ["ALL"]
    assert s["security_opt"] == ["no-new-privileges:true"]
    assert s["restart"] in ("unless-stopped", "no")
    assert s["mem_limit"]
    assert s["cpus"]
    assert s["pids_limit"]
    assert PINNED.fullmatch(s["image"])
    assert not {"privileged", "network_mode", "pid", "ipc", "cap_add", "devices"} & set(s)
    for port in s.get("ports", ()):
        assert port.startswith("${LAB_BIND:-127.0.0.1}:"), (
            "published beyond this machine unless asked"
        )
    for volume in s.get("volumes", ()):
        assert volume.endswith(":ro") or name == "sweep"
        here = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", volume).split(":")[0]
        assert (ROOT / here).exists(), f"{here} is mounted and not there"
        assert "docker.sock" not in volume


def test_dask_stands_in_a_network_without_a_way_out():
    inside = {name for name, s in SERVICES.items() if "dask" in s["networks"]}
    assert inside == {"scheduler", "worker", "sweep"}
    assert COMPOSE["networks"]["dask"]["internal"] is True
    assert all(
        SERVICES[name]["networks"] == ["dask"] and not SERVICES[name].get("ports")
        for name in inside
    )


# ---- proxy ---------------------------------------------------------------------------------------


def proxy():
    return (ROOT / "deploy" / "haproxy.cfg").read_text()


def test_the_proxy_serves_what_compose_starts():
    servers = re.findall(
        r"^\s+server(?:-template)? \S+ (?:\d+ )?(\w+):(\d+)", proxy(), re.MULTILINE
    )
    assert servers == [("lab", "8501"), ("replica", "8501")]
    assert {"lab", "replica"} <= set(SERVICES)
    (port,) = re.findall(r"bind :(\d+)", proxy())
    assert SERVICES["proxy"]["ports"][0].endswith(f":{port}")


def test_uploads_pass_the_proxy():
    allowed = int(re.search(r"div\(1048576\) gt (\d+)", proxy())[1])
    assert allowed > config.get_option("server.maxUploadSize")


@pytest.mark.skipif(not shutil.which("haproxy"), reason="haproxy is not installed here")
def test_haproxy_takes_its_settings():
    done = subprocess.run(
        ["haproxy", "-c", "-f", ROOT / "deploy" / "haproxy.cfg"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
