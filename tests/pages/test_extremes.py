"""Both memory pages at both ends of every number: a picture, and numbers that can be read."""

import pytest
from streamlit.testing.v1 import AppTest

from pages.ui import controls


@pytest.mark.parametrize(
    ("page", "preset"),
    [
        ("landscape", "context"),
        ("landscape", "slice"),
        ("retrieval", "bounds"),
        ("retrieval", "lemma"),
    ],
)
def test_every_number_may_stand_at_either_end(page, preset):
    code = f"import importlib\nimportlib.import_module('pages.{page}').render()"
    at = AppTest.from_string(code, default_timeout=240)
    at.query_params["preset"] = preset
    at.run()
    rows = [r for r in controls.rows(page) if isinstance(r, controls.Number) and r.slider]
    for row in rows:
        if row.name not in {w.key for w in at.number_input}:
            continue
        before = at.number_input(key=row.name).value
        for value in (row.low, row.high):
            at.number_input(key=row.name).set_value(value).run()
            said = f"{row.name} = {value}"
            assert not at.exception, said
            assert not at.warning, f"{said}: {at.warning[0].value}"
            words = "\n".join(str(e.value) for e in (*at.markdown, *at.get("html")))
            assert "nan" not in words.lower().split(), said
            assert "not finite" not in words, said
        at.number_input(key=row.name).set_value(before).run()
