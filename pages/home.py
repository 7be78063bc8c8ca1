"""Home."""

import streamlit as st

from pages.ui import frame


def render() -> None:
    frame.style()
    st.write("home")
