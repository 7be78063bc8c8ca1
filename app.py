"""Reshape Lab: the router, nothing else."""

import streamlit as st

from pages import catalog
from pages.ui import sign_in

st.set_page_config(
    page_title="Reshape Lab",
    page_icon=catalog.ICON,
    layout="wide",
    menu_items={
        "About": "In-context learning as associative memory, to be seen, measured and doubted."
    },
)
inside = sign_in.passed()
page = st.navigation(catalog.navigation(), position="top" if inside else "hidden")
(page.run if inside else sign_in.show)()
