"""The engine: energies, reshaping, in-context evaluation. Knows torch, never Streamlit."""
