"""Reshape Lab: the router, nothing else."""

import streamlit as st

from pages import catalog

st.set_page_config(
    page_title="Reshape Lab",
    page_icon=catalog.ICON,
    layout="wide",
    menu_items={
        "About": "In-context learning as associative memory, to be seen, measured and doubted."
    },
)
st.navigation(catalog.navigation(), position="top").run()
