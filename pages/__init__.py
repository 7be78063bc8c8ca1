"""All that knows Streamlit: one page a file, and `pages.ui`, which they share."""
