"""The pictures of the regression page, one module each."""
