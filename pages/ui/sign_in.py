"""Sign-in with OpenID Connect where an operator has configured it; without that the lab is open to all.

It is configured by `[auth]` in Streamlit's secrets (`deploy/secrets/README.md`). Secrets that cannot be read keep the
lab shut: somebody meant to shut it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.errors import StreamlitAPIException, StreamlitSecretNotFoundError

from pages.ui.component import component

_asked = component("asked", html='<span class="lab-asked"></span>')
_log = logging.getLogger(__name__)

BROKEN = "The settings of the sign-in cannot be used, so nobody is let in. Its log tells who runs this lab why."


def passed() -> bool:
    """Whether this visitor may see the lab. Where sign-in is configured, says who is signed in."""
    try:
        secrets = _secrets()
        if not secrets.get("auth"):
            if allowed(secrets) is None:
                return True
            _log.error("the secrets list who may come in under [sign_in], but [auth] is missing")
            return False
        if not (st.user.get("is_logged_in") and is_on(allowed(secrets), st.user.to_dict())):
            return False
    except ValueError:  # `show` says it
        return False
    _asked(data={"inside": True}, key="asked")
    with st.container(horizontal=True, horizontal_alignment="right", key="lab-signed-in"):
        st.text(_name(), width="content")
        st.button("Sign out", on_click=st.logout, type="tertiary", key="sign-out")
    return True


def show() -> None:
    """The page of a visitor who has not signed in, or may not come in."""
    with st.container(key="lab-sign-in"):
        st.html("<h1>Reshape Lab</h1>")
        try:
            _ask(_secrets())
        except ValueError as reason:
            st.error(str(reason), icon=":material/lock:")


def _ask(secrets: Mapping[str, Any]) -> None:
    listed = allowed(secrets)
    inside = bool(st.user.get("is_logged_in"))
    _asked(data={"inside": False}, key="asked")
    if inside and not is_on(listed, st.user.to_dict()):
        st.text(
            f"You are signed in as {_name()}, who is not on the list of this lab. Ask who runs it."
        )
        st.button("Sign out", on_click=st.logout, key="sign-out")
        return
    names = providers(secrets.get("auth") or {})
    if st.session_state.pop("sign-in-failed", False):
        raise ValueError(BROKEN)
    st.text("This lab asks its visitors to sign in. Then it opens the page you came for.")
    for name in names:
        label = f"Sign in with {name}" if name else "Sign in"
        st.button(label, on_click=_login, args=(name,), type="primary", key=f"sign-in-{name}")


def _login(name: str | None) -> None:
    try:
        st.login(name)
    except StreamlitAPIException:
        _log.exception("st.login(%r) failed", name)
        st.session_state["sign-in-failed"] = True


def _secrets() -> Mapping[str, Any]:
    """The secrets, empty if no file is there. Raises ValueError for a file that cannot be read."""
    if not any(Path(path).is_file() for path in st.get_option("secrets.files")):
        return {}
    try:
        return st.secrets.to_dict()
    except (StreamlitSecretNotFoundError, OSError):
        _log.exception("the secrets cannot be read")
        raise ValueError(BROKEN) from None


def providers(auth: Mapping[str, Any]) -> list[str | None]:
    """Names of the providers in `[auth]`; None is the one without a name. Raises ValueError if there is none."""
    named: list[str | None] = [
        k for k, v in auth.items() if isinstance(v, Mapping) and "client_id" in v
    ]
    found = ([None] if "client_id" in auth else []) + named
    if not found:
        _log.error(
            "[auth] in the secrets names no provider: expected a client_id in it or in [auth.NAME]"
        )
        raise ValueError(BROKEN)
    return found


def allowed(secrets: Mapping[str, Any]) -> Sequence[str] | None:
    """Addresses (`ada@example.org`) and domains (`@example.org`) that may come in; None: whom the provider knows.

    Raises ValueError where `[sign_in]` says anything else.
    """
    section = secrets.get("sign_in", {})
    found = section.get("allowed") if isinstance(section, Mapping) else section
    if found is None and not section:
        return None
    if not isinstance(found, list) or not all(isinstance(a, str) and "@" in a for a in found):
        _log.error(
            '[sign_in] in the secrets: expected allowed = ["ada@example.org", "@example.org"], got %r',
            section,
        )
        raise ValueError(BROKEN)
    return found


def is_on(listed: Sequence[str] | None, user: Mapping[str, Any]) -> bool:
    """Whether the list holds a signed-in user. An address that the provider has not verified counts for nothing."""
    if listed is None:
        return True
    email = user.get("email")
    if not isinstance(email, str) or user.get("email_verified") in (False, "false"):
        return False
    email = email.casefold()
    return any(
        email == a.casefold() or (a.startswith("@") and email.endswith(a.casefold())) for a in listed
    )  # fmt: skip


def _name() -> str:
    return str(st.user.get("name") or st.user.get("email") or "somebody")[:80]
