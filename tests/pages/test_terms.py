"""Words: every symbol and every control is explained where it stands, and the glossary keeps its promises."""

import itertools
import re
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from pages import catalog
from pages.ui import controls, frame, terms
from tests.pages.visits import TERM, unlinked
from tests.test_registry import WITH_CONTROLS, module

# Of every reader: functions, relations, brackets, Euler's number, an index that only counts.
GENERAL = {
    "log",
    "sum",
    "exp",
    "max",
    "min",
    "arg",
    "softmax",
    "frac",
    "tfrac",
    "left",
    "right",
    "bigl",
    "bigr",
    "Bigl",
    "Bigr",
    "cdot",
    "cdots",
    "ldots",
    "dots",
    "le",
    "ge",
    "mapsto",
    "quad",
    "qquad",
    "to",
    "sim",
    "mid",
    "top",
    "overset",
    "infty",
    "longleftrightarrow",
    "in",
    "nolimits",
    "iff",
    "pm",
    "sqrt",
    "nabla",
    "circ",
    "setminus",
    "propto",
    "e",
    "i",
}
GREEK = dict(beta="β", xi="ξ", mu="μ", nu="ν", rho="ρ", Phi="Φ", Xi="Ξ", Delta="Δ", lambda_="λ", kappa="κ",
             sigma="σ", gamma="γ", Gamma="Γ", theta="θ", varepsilon="ε", Psi="Ψ", pi="π")  # fmt: skip


def symbols(latex):
    """The symbols of a formula, decorated ones as one: `\\tilde K`."""
    latex = re.sub(r"\\(text|mathrm)\{[^}]*\}|\\mathbb\{?E\}?", " ", latex)
    found = re.findall(r"\\(?:tilde|hat)\s*\{?[A-Za-z]\}?|\\[A-Za-z]+|[A-Za-z]", latex)
    plain = {re.sub(r"[\s{}]", "", s) for s in found}
    return {s for s in plain if s.lstrip("\\") not in GENERAL}


def words(name):
    return frame._words_of(module(name).render)


def formulas(name):
    """Every equation the page can show."""
    page = words(name)
    rows = [r for r in controls.rows(name) if r.key in ("view", "family")]
    for options in itertools.product(*(r.offered() for r in rows)):
        chosen = {r.key: option for r, option in zip(rows, options, strict=True)}
        yield page.formula(controls.defaults(name) | chosen)


@pytest.mark.parametrize("name", WITH_CONTROLS)
def test_every_symbol_of_an_equation_is_explained_beside_it(name):
    page = words(name)
    said = set().union(*map(symbols, page.symbols)) if page.symbols else set()
    text = " ".join(page.symbols.values())

    def explained(symbol):
        bare = symbol.lstrip("\\")
        return symbol in said or re.search(rf"(?<!\w){GREEK.get(bare, bare)}(?![^\W_])", text)

    for formula in formulas(name):
        missing = {s for s in symbols(formula) if not explained(s)}
        assert not missing, formula


def test_every_control_says_what_it_does():
    silent = {r.name for r in controls.TABLE if not r.help}
    tabs = {r.name for r in controls.TABLE if isinstance(r, controls.Choice) and r.tabs}
    assert silent <= tabs, (
        "a row of pictures is named by what stands on its buttons; all else needs help"
    )
    for row in controls.TABLE:
        assert not row.help or row.help.rstrip().endswith((".", "?")), row.name


def test_a_term_has_one_spelling_of_its_own_and_a_sentence():
    assert len({t.key for t in terms.TERMS}) == len(terms.TERMS)
    spelt = [form.casefold() for t in terms.TERMS for form in {*terms._names(t), *t.forms}]
    twice = {s for s in spelt if spelt.count(s) > 1}
    assert not twice
    for t in terms.TERMS:
        assert re.fullmatch(r"[a-z0-9-]+", t.key)
        assert t.says.endswith(".")
        assert len(t.says) < 260, f"{t.key}: a sentence or two"
        assert t.source
        assert t.see


@pytest.mark.parametrize("link", sorted({link for t in terms.TERMS for link in t.see}))
def test_a_term_leads_to_a_page_and_a_scenario_that_are_there(link):
    name, _, query = link.partition("?")
    presets = [s.name for s in module(catalog.page(name).name).SCENARIOS]
    assert controls.read_link(name, parse_qs(query), presets).notices == ()


@pytest.mark.parametrize(
    "word",
    [
        "associative memory",
        "modern Hopfield network",
        "energy",
        "inverse temperature",
        "attention",
        "query",
        "key",
        "value",
        "in-context example",
        "ghost example",
        "reshaping",
        "W₁",
        "W₂",
        "pseudo-inverse",
        "rank",
        "condition number",
        "residual",
        "ridge",
        "separation",
        "margin",
        "basin",
        "fixed point",
        "retrieval",
        "covariate shift",
        "label noise",
        "R²",
        "bootstrap band",
        "least squares",
        "kNN",
        "boosting",
        "BMA",
        "posterior",
        "posterior predictive",
        "generalisation gap",
        "induction head",
        "logit",
        "embedding",
        "cross-talk",
        "AUC",
        "macro-F1",
        "prompt tuning",
        "checkpoint",
        "safetensors",
        "seed",
    ],
)
def test_what_a_page_names_is_in_the_glossary(word):
    assert f"[{word.strip()}](glossary?term=" in terms.linked(word.strip())


TEXTS = [
    text
    for name in WITH_CONTROLS
    for text in (words(name).lead, *(s.claim for s in module(name).SCENARIOS))
]


@given(
    st.lists(
        st.sampled_from([*TEXTS, "$query$", "`energy`", "[a query](x)", "as well"]), max_size=4
    )
)
def test_links_change_no_word(parts):
    text = " ".join(parts)
    assert unlinked(terms.linked(text)) == text


def test_each_term_is_linked_once_and_never_inside_a_formula_or_a_link():
    linked = terms.linked("Query and query, $query$, `margin`, [a ridge](x), as well, wells, head")
    assert [m[1] for m in TERM.finditer(linked)] == ["Query", "wells", "head"]
    assert "[a ridge](x)" in linked


def test_a_lead_explains_its_words():
    """The first sentence of every page that is about a mechanism leads to at least one term."""
    without = [n for n in WITH_CONTROLS if not TERM.search(terms.linked(words(n).lead))]
    assert without == []


def test_the_glossary_finds_by_name_and_symbol_and_says_when_it_finds_nothing():
    assert terms.found("margin")[0].key == "margin"
    assert terms.found("β")[0].key == "beta"
    assert terms.found("condition number")[0].key == "condition"
    assert terms.found("no such word") == ()
    assert terms.found("") == terms.TERMS


def test_a_link_opens_one_term_and_the_field_finds_another():
    at = AppTest.from_string("from pages import glossary\nglossary.render()")
    at.query_params["term"] = "beta"
    at.run()
    assert not at.exception
    assert at.text_input[0].value == "inverse temperature"
    shown = at.markdown[-1].value
    assert shown.count("<h2") == 1
    assert "preset=sharp" in shown
    at.text_input[0].set_value("qwertz").run()
    assert any("No word here holds" in h.proto.body for h in at.get("html"))
    at.button[0].click().run()
    assert at.markdown[-1].value.count("<h2") == len(terms.TERMS)
    assert at.text_input[0].value == ""


def test_a_link_to_an_unknown_term_is_searched_for():
    at = AppTest.from_string("from pages import glossary\nglossary.render()")
    at.query_params["term"] = "<b>bold</b>"
    at.run()
    assert not at.exception
    (note,) = [h.proto.body for h in at.get("html") if "No word here" in h.proto.body]
    assert "<b>" not in note
