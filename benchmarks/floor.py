"""The floor of every slider timing: a page that only prints its slider's value."""

import streamlit as st

st.html(f'<p id="floor">{st.slider("Value", 0, 1000, 500)}</p>')
